/** Requests to the controller: JSON in and out, problem documents as errors, the token if there is one. */

const KEPT = "steelyard-token";

/** An error answer: its status and its message for a person. */
export class Problem extends Error {
  constructor(status, detail, errors = []) {
    super(errors.length > 0 ? `${detail} ${errors.map((each) => `${each.field}: ${each.message}`).join("; ")}` : detail);
    this.status = status;
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEPT),
  set: (value) => sessionStorage.setItem(KEPT, value),
  forget: () => sessionStorage.removeItem(KEPT),
};

/** Return the headers of every request. */
export function headers(more = {}) {
  const kept = token.get();
  return kept === null ? more : { ...more, Authorization: `Bearer ${kept}` };
}

/** Ask, and return the JSON of the answer; raise `Problem`, with status 0 without an answer. */
export async function request(method, path, body, type = "application/json") {
  const options = { method, headers: headers(body === undefined ? {} : { "Content-Type": type }) };
  if (body !== undefined) options.body = JSON.stringify(body);
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Problem(0, "The controller does not answer.");
  }
  if (!answer.ok) throw await problemOf(answer);
  return answer.status === 204 ? null : answer.json();
}

/** Return the message of an error answer. */
export async function problemOf(answer) {
  try {
    const document = await answer.json();
    return new Problem(answer.status, document.detail ?? document.title ?? answer.statusText, document.errors);
  } catch {
    return new Problem(answer.status, `The controller answered ${answer.status} ${answer.statusText}.`);
  }
}

/** Return the path of an upstream, or of a part of it. */
export function pathOf(upstream, ...below) {
  return ["/v1/upstreams", upstream, ...below].map((part, index) => (index === 0 ? part : encodeURIComponent(part))).join("/");
}
