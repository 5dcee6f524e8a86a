// Requests to WMS2 with a timeout; a refusal becomes a Problem with the server's text and cure.
import { indicateSlow } from "./indicator.js";

const TIMEOUT_MS = 10_000;
const SLOW_MS = 2_000; // after this the page says that it waits

export class Problem extends Error {
  constructor(status, title, cure = "") {
    super(title);
    this.status = status; // 0: no answer
    this.cure = cure;
  }
}

// Returns {etag, text}, or null if the server has nothing newer than `etag`.
export async function read(url, { etag = "", accept = "text/html" } = {}) {
  const headers = { Accept: accept, "X-Requested-With": "fetch" };
  if (etag) headers["If-None-Match"] = etag;
  const answer = await send(url, { headers });
  if (answer.status === 304) return null;
  return { etag: answer.headers.get("ETag") ?? "", text: await answer.text() };
}

export async function readJson(url, options = {}) {
  const found = await read(url, { ...options, accept: "application/json" });
  return found && { etag: found.etag, body: JSON.parse(found.text) };
}

// Sends JSON with the CSRF token of the page and returns the parsed body.
export async function write(url, body, { method = "POST", headers = {} } = {}) {
  const csrf = document.cookie.match(/(?:^|; )csrftoken=([^;]*)/)?.[1] ?? "";
  const answer = await send(url, {
    method,
    headers: { Accept: "application/json", "Content-Type": "application/json", "X-CSRFToken": csrf, ...headers },
    body: JSON.stringify(body),
  });
  return answer.status === 204 ? null : answer.json();
}

export async function send(url, options) {
  let answer;
  let waits = false;
  const slow = setTimeout(() => indicateSlow((waits = true)), SLOW_MS);
  try {
    answer = await fetch(url, {
      credentials: "same-origin",
      redirect: "manual",
      signal: AbortSignal.timeout(TIMEOUT_MS),
      ...options,
    });
  } catch (error) {
    const late = error.name === "TimeoutError";
    throw new Problem(0, late ? "WMS2 did not answer in time" : "WMS2 does not answer", "The page retries by itself.");
  } finally {
    clearTimeout(slow);
    if (waits) indicateSlow(false);
  }
  if (answer.type === "opaqueredirect") throw new Problem(401, "The session has ended", "Log in again.");
  if (answer.ok || answer.status === 304) return answer;
  let problem = {};
  try {
    problem = await answer.json();
  } catch {
    // a page of the proxy, not a problem document
  }
  const title = problem.detail || problem.title || `WMS2 answered ${answer.status}`;
  throw new Problem(answer.status, title, problem.cure ?? "");
}
