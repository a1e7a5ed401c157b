/**
 * Server-sent events from pieces of text (the WHATWG's "event stream" format). Pure.
 *
 * Our own because EventSource sends no Authorization header. A piece is searched once: a tick of
 * 10,000 servers is megabytes, and joining and searching it again for each piece would take seconds.
 */
export class Parser {
  #pieces = [];
  #name = "";
  #data = [];
  #tell;

  /** `tell` is called with (name, data) for each event. */
  constructor(tell) {
    this.#tell = tell;
  }

  /** Take the next piece of text, cut anywhere. */
  feed(text) {
    let from = 0;
    for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", from)) {
      this.#pieces.push(text.slice(from, end));
      const line = this.#pieces.join("");
      this.#pieces = [];
      this.#line(line.endsWith("\r") ? line.slice(0, -1) : line);
      from = end + 1;
    }
    if (from < text.length) this.#pieces.push(text.slice(from));
  }

  #line(line) {
    if (line === "") {
      if (this.#data.length > 0) this.#tell(this.#name || "message", this.#data.join("\n"));
      this.#name = "";
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "event") this.#name = value;
    else if (field === "data") this.#data.push(value);
  }
}
