import type { WriteStream } from "node:tty";
import type { Line } from "../../cli/view/line.ts";
import type { Server } from "../process.ts";

export interface DemoOptions {
  /** Everything is kept here: data, logs, certificates, `rehome.yaml`. */
  readonly dir: string;
  /** Objects in what is moved, where the kind has any to make. */
  readonly objects: number;
  readonly requestsPerSecond: number;
  readonly out: WriteStream;
  /** Ends what is shown; the servers and the move go on. */
  readonly signal: AbortSignal;
}

/** A demo of any kind that has come to its end; its servers still run. */
export interface Demo {
  /** For programs: `.rehome/report.json`. */
  readonly report: {
    readonly uiUrl: string;
    /** What was broken, in words; empty when all is well. */
    readonly broken: readonly string[];
  };
  /** The report for people. */
  readonly lines: readonly Line[];
  /** What one can go on with while everything is left running: names and values. */
  readonly hints: Readonly<Record<string, string>>;
  readonly servers: readonly Server[];
  stop(): Promise<void>;
}

/** How long the clients are watched before the move, to know their usual rhythm, and after it. */
export const observedBeforeMs = 5_000;
export const observedAfterMs = 5_000;
