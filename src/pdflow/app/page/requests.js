/** Requests to the app. An answer that is no success becomes an error with the server's sentence. */

const LOST = "The app does not answer: is it still running?";

async function ask(method, path, body) {
  let answer;
  try {
    answer = await fetch(path, { method, body });
  } catch {
    throw new Error(LOST);
  }
  return read(answer.status, await answer.text());
}

function read(status, text) {
  let answer = null;
  try {
    answer = text ? JSON.parse(text) : null;
  } catch {
    // a refusal of the gate is plain text
  }
  if (status >= 200 && status < 300) return answer;
  const error = new Error(answer?.error ?? (status ? `The app refuses this (${status}).` : LOST));
  error.status = status;
  throw error;
}

export const getState = (key) => ask("GET", `clouds/${key}`);
export const openExample = () => ask("POST", "example");
export const denoise = (key, options) => ask("POST", `clouds/${key}/denoise`, JSON.stringify(options));
export const cancel = (key) => ask("POST", `clouds/${key}/cancel`);
export const forget = (key) => ask("DELETE", `clouds/${key}`);

/** Send a file. `progress` gets the share that was sent; `abort` of the result stops it. */
export function sendFile(file, drop, progress) {
  const request = new XMLHttpRequest(); // fetch does not say how much was sent
  const arrived = new Promise((done, fail) => {
    request.upload.addEventListener("progress", (event) => progress(event.loaded / event.total));
    request.addEventListener("loadend", () => {
      try {
        done(read(request.status, request.responseText));
      } catch (error) {
        fail(error);
      }
    });
  });
  request.open("POST", `clouds?name=${encodeURIComponent(file.name)}&drop=${drop ? 1 : 0}`);
  request.send(file);
  return { arrived, abort: () => request.abort() };
}
