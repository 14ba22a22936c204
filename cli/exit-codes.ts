/** What the command says to whoever started it. */
export const EXIT = {
  ok: 0,
  /** The move failed, or the request was refused. */
  failed: 1,
  /** The command line or the input is wrong: nothing was asked of anybody. */
  usage: 2,
  /** The move was aborted or cancelled. */
  aborted: 3,
  /** Temporal, or a worker, could not be asked: what happened to the request may not be known. */
  unavailable: 4,
  /** Stopped by Ctrl-C, as shells have it. */
  interrupted: 130,
} as const;

export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

/** A problem that is told in its own words, without a stack, and ends the command. */
export class CommandError extends Error {
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause });
    this.name = "CommandError";
    this.exitCode = exitCode;
  }
}
