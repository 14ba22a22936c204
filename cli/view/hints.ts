import { shellWord } from "./format.ts";

/** How the reader would call the command again, so that what is shown can be pasted as it stands. */
export interface Hints {
  /** `npm run rehome --`. */
  readonly program: string;
  /** The connection as it was given on this command line: `["--address", "10.0.0.1:7233"]`. */
  readonly connection: readonly string[];
  /** Who would approve, resume or abort. */
  readonly by: string;
}

export type Verb = "watch" | "approve" | "resume" | "abort" | "report" | "list";

/** A command that can be pasted into a shell: `npm run rehome -- approve … --gate Cutover --by alice`. */
export function commandFor(hints: Hints, verb: Verb, ...args: readonly string[]): string {
  return [hints.program, verb, ...[...args, ...hints.connection].map(shellWord)].join(" ");
}

/** How to start a worker: what a person does when nobody answers. */
export const START_A_WORKER = "npm run worker -- --config rehome.yaml";
