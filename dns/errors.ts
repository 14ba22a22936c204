/**
 * Failures that callers tell apart: these five classes are all that the functions of this room throw, besides a
 * RangeError for a wrong name or value and the reason of an aborted signal. No message holds a secret.
 */

/** Why a server refused: TSIG errors of RFC 8945 section 3, else the response code of the message. */
export type RefusalReason =
  | "BADKEY"
  | "BADSIG"
  | "BADTIME"
  | "BADTRUNC"
  | "NOTAUTH"
  | "NOTZONE"
  | "NOTIMP"
  | "REFUSED";

/** The server answered that it will not do this: asking again does not help until somebody changes something. */
export class RefusedError extends Error {
  override readonly name = "RefusedError";
  readonly server: string;
  readonly reason: RefusalReason;
  constructor(server: string, reason: RefusalReason, detail: string) {
    super(`DNS server ${server} refused (${reason}): ${detail}`);
    this.server = server;
    this.reason = reason;
  }
}

/** The record is neither as the caller knew it nor as the caller wants it: somebody else changed it. */
export class LostRaceError extends Error {
  override readonly name = "LostRaceError";
  readonly server: string;
  /** What the record holds instead; empty where there is none. */
  readonly found: readonly string[];
  constructor(server: string, record: string, expected: readonly string[], found: readonly string[]) {
    const instead = found.length === 0 ? "nothing" : found.join(", ");
    super(`DNS server ${server}: ${record} should be ${expected.join(", ")}, but holds ${instead}`);
    this.server = server;
    this.found = found;
  }
}

/** The server answered, but with a failure of its own, with what is no valid message, or without a valid signature. */
export class ServerFailureError extends Error {
  override readonly name = "ServerFailureError";
  readonly server: string;
  constructor(server: string, what: string) {
    super(`DNS server ${server}: ${what}`);
    this.server = server;
  }
}

/** Nobody answered. After an update its outcome is unknown; repeating it is safe. */
export class UnreachableError extends Error {
  override readonly name = "UnreachableError";
  /** What happened at each server, in words. */
  readonly attempts: readonly string[];
  constructor(attempts: readonly string[]) {
    super(`DNS server unreachable: ${attempts.join("; ")}`);
    this.attempts = attempts;
  }
}

/** The time is up, and some authoritative servers do not yet answer what they should. */
export class LaggingError extends Error {
  override readonly name = "LaggingError";
  readonly lagging: readonly Lag[];
  constructor(record: string, lagging: readonly Lag[]) {
    const list = lagging.map(({ server, answers }) => `${server} ${answers}`);
    super(`${record} is not yet right at every authoritative server: ${list.join("; ")}`);
    this.lagging = lagging;
  }
}

/** One authoritative server that does not answer what is expected, and what it answers instead, in words. */
export interface Lag {
  readonly server: string;
  readonly answers: string;
  /** It has never answered in all the time. */
  readonly silent: boolean;
}
