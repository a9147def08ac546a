// Asks the token service. One request at a time: a view never has two in flight, and an action waits for the answer before it.

import { withQuery } from "./paths.js";

const patience = 30000;

// A refusal as the API words it (RFC 9457), or the absence of an answer.
export class Problem extends Error {
  constructor(status, { title, detail, errors = [] }) {
    super(title);
    Object.assign(this, { status, title, detail, errors });
  }
}

// The key is in this variable and nowhere else: a reload of the page forgets it.
let key = null;
let session = new AbortController();
let last = Promise.resolve();

export const useKey = text => {
  session.abort();
  session = new AbortController();
  key = text;
};

// Ends with the key: nothing that one person began goes on with the key of another.
export const sessionSignal = () => session.signal;

export const request = (method, path, { query, body, signal } = {}) => {
  const answer = last.then(() => exchange(method, path, query, body, signal));
  last = answer.catch(() => {});
  return answer;
};

const exchange = async (method, path, query, body, signal) => {
  signal?.throwIfAborted();
  const headers = { Authorization: "Bearer " + key, Accept: "application/json" };
  if (body) headers["Content-Type"] = "application/json";
  const limit = AbortSignal.timeout(patience);
  let answer, content;
  try {
    answer = await fetch(new URL("v1" + withQuery(path, query), document.baseURI), {
      method, headers, body: body && JSON.stringify(body), signal: signal ? AbortSignal.any([signal, limit]) : limit,
      cache: "no-store", credentials: "omit", redirect: "error",
    });
    const text = await answer.text();
    content = text && JSON.parse(text);
  } catch (failure) {
    signal?.throwIfAborted();
    if (failure instanceof SyntaxError) {
      throw new Problem(answer.status, { title: "The answer is not JSON", detail: "Is a proxy between this page and the token service?" });
    }
    throw new Problem(0, { title: "The token service does not answer", detail: "Check the network, and that the service runs." });
  }
  if (!answer.ok) throw new Problem(answer.status, { title: "Status " + answer.status, ...content });
  return content;
};
