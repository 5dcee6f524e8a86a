// Times are shown in UTC; the tooltip has the local time.
const LOCAL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

export function showTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.valueOf())) time.title = `Local time: ${LOCAL.format(at)}`;
  }
}
