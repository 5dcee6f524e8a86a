// A cell of the failure matrix shows only its causes. The choice survives updates of the page.
export function startMatrix(root) {
  let chosen = "";

  function apply() {
    const list = root.querySelector("#clusters");
    if (!list) return;
    for (const row of list.children) row.hidden = Boolean(chosen) && row.dataset.cell !== chosen;
    for (const cell of root.querySelectorAll(".wms2-cell")) cell.setAttribute("aria-pressed", String(cell.dataset.cell === chosen));
    const filter = root.querySelector("#clusters-filter");
    filter.hidden = !chosen;
    filter.firstElementChild.textContent = chosen ? `Causes of ${chosen.replace("/", ", exit code ")}.` : "";
  }

  root.addEventListener("click", ({ target }) => {
    const cell = target.closest(".wms2-cell");
    if (cell) chosen = chosen === cell.dataset.cell ? "" : cell.dataset.cell;
    else if (target.closest("#clusters-filter button")) chosen = "";
    else return;
    apply();
  });
  root.addEventListener("wms2:updated", apply);
  apply();
}
