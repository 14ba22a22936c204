import type { WorkflowHandle } from "@temporalio/client";
import type { WorkerPair } from "../e2e/harness/worker-pair.ts";

/** A fault that has taken effect. */
export interface Struck {
  /**
   * Ends it and waits until what it hit is well again.
   * @returns `"missed"` when there was nothing for it to hit.
   */
  heal(): Promise<"missed" | void>;
}

/** What faults of every kind of move can strike. */
export interface Place {
  readonly workers: WorkerPair;
  readonly temporal: Restartable;
}

export interface Restartable {
  kill(): Promise<void>;
  start(): Promise<unknown>;
}

/** Only what faults ask of a move. */
export type StruckMove = Pick<WorkflowHandle, "describe" | "fetchHistory">;

export interface Fault<P> {
  readonly name: string;
  /** Resolves as soon as it is in effect. */
  readonly strike: (place: P, move: StruckMove) => Promise<Struck>;
  /** How long it stays. At once over when left out, as for what is started again as soon as it is dead. */
  readonly lastsMs?: number;
  /**
   * Clients of the moved thing cannot notice it, because it hits rehome only: no request of theirs may fail beside
   * those that fail in a move without faults.
   */
  readonly hidden: boolean;
  /** It hits a step that is under way: there is none while a move waits at a gate. */
  readonly amidStep?: true;
}

/** What is over as soon as it has struck. */
export const done: Struck = { heal: async () => undefined };

/** A fault that lasts until its disposable is disposed. */
export async function until(disposable: Promise<AsyncDisposable>): Promise<Struck> {
  const struck = await disposable;
  return { heal: async () => await struck[Symbol.asyncDispose]() };
}

/** Faults that hit what every kind of move hangs on. */
export const commonFaults: readonly Fault<Place>[] = [
  {
    name: "worker killed",
    hidden: true,
    async strike({ workers }) {
      await workers.current.kill();
      return { heal: async () => void (await workers.current.start()) };
    },
  },
  {
    name: "worker frozen, wakes beside its successor",
    hidden: true,
    amidStep: true,
    async strike({ workers }, move) {
      const frozen = await workers.freeze(move);
      return {
        async heal() {
          const isTakenOver = await frozen?.takenOver();
          await frozen?.thaw();
          return isTakenOver ? undefined : "missed";
        },
      };
    },
  },
  {
    name: "worker frozen for 30 s",
    hidden: true,
    amidStep: true,
    lastsMs: 30_000,
    async strike({ workers }, move) {
      const frozen = await workers.freeze(move);
      return {
        async heal() {
          await frozen?.thaw();
          return frozen ? undefined : "missed";
        },
      };
    },
  },
  {
    name: "Temporal killed",
    hidden: true,
    async strike({ temporal }) {
      await temporal.kill();
      return { heal: async () => void (await temporal.start()) };
    },
  },
];
