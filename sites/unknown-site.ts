/** A name that the configuration does not know. `known` lists those that it does. */
export class UnknownSiteError extends Error {
  override readonly name = "UnknownSiteError";
  readonly known: readonly string[];

  /** @param kind what it was to be the name of, as a person says it: `shard`, `seed`. */
  constructor(kind: string, site: string, known: readonly string[]) {
    super(`no ${kind} "${site}" in the configuration; it has: ${known.join(", ") || "none"}`);
    this.known = known;
  }
}
