import { setTimeout as delay } from "node:timers/promises";
import { pollUntil } from "../../../kubernetes/wait.ts";
import type { Server } from "../../../testbed/process.ts";
import { STARTED } from "./moves.ts";
import type { AnyMove } from "./moves.ts";
import { makeWorker } from "./worker.ts";

/** How long a zombie is left beside its successor at least: it writes at once if anything lets it. */
const AWAKE_MS = 3_000;

const AT_WORK_WITHIN_MS = 240_000;
/** A move of which nothing is under way for so long waits at a gate, or has ended. */
const IDLE_MS = 5_000;
const TAKEN_OVER_WITHIN_MS = 120_000;
const LOOK_EVERY_MS = 10;

type Watched = Pick<AnyMove, "describe" | "fetchHistory">;

/** A worker that was stopped amid steps, beside its successor. */
export interface Frozen {
  /**
   * Waits until the successor has begun one of those steps anew.
   * @returns false when they had ended already.
   */
  takenOver(): Promise<boolean>;
  /** Lets it go on where it was, as soon as its successor runs. */
  thaw(): Promise<void>;
}

interface Zombie {
  readonly server: Server;
  /** Left out while it is frozen. Milliseconds of the monotonic clock. */
  awakeAt?: number;
}

/**
 * The worker that moves run on, and at times a second one beside it: a zombie, which has been given up but is not dead.
 */
export class WorkerPair {
  readonly #config: string;
  #current: Server;
  #zombies: Zombie[] = [];

  private constructor(config: string, current: Server) {
    this.#config = config;
    this.#current = current;
  }

  /** @param current a worker with this configuration that runs. */
  static of(config: string, current: Server): WorkerPair {
    return new WorkerPair(config, current);
  }

  static async start(config: string): Promise<WorkerPair> {
    const first = await makeWorker(config);
    await first.start();
    return new WorkerPair(config, first);
  }

  get current(): Server {
    return this.#current;
  }

  /**
   * Stops the worker as it stands, with all its connections and thoughts, amid a step of this move, and starts another.
   *
   * @returns undefined when it has not been caught at work.
   */
  async freeze(move: Watched): Promise<Frozen | undefined> {
    const server = this.#current;
    const held = await freezeAtWork(server, move);
    if (held === undefined) return undefined;
    const zombie: Zombie = { server };
    this.#zombies.push(zombie);
    const successor = await makeWorker(this.#config);
    this.#current = successor;
    const started = successor.start();
    // Told to whoever waits for it, below.
    started.catch(() => undefined);
    return {
      async takenOver() {
        await started;
        return await tookOver(move, held, successor);
      },
      async thaw() {
        await started;
        zombie.awakeAt = performance.now();
        server.thaw();
      },
    };
  }

  /** Ends the zombies, which have been awake beside the new worker until now. */
  async bury(): Promise<void> {
    for (const { server, awakeAt = -Infinity } of this.#zombies.splice(0)) {
      await delay(Math.max(0, awakeAt + AWAKE_MS - performance.now()));
      await server.kill();
    }
  }

  async stop(): Promise<void> {
    await this.bury();
    await this.#current.stop();
  }
}

function isOf({ pid }: Server, identity: string | null | undefined): boolean {
  return identity?.startsWith(`${pid}@`) === true;
}

/** @returns the ids of the activities whose attempts the frozen worker has; undefined, and it runs on, when there are none. */
async function freezeAtWork(server: Server, move: Watched): Promise<string[] | undefined> {
  let busyAt = performance.now();
  const held = async () => {
    const { pendingActivities: pending, pendingWorkflowTask: task } = (await move.describe()).raw;
    if (task || (pending ?? []).length > 0) busyAt = performance.now();
    return (pending ?? [])
      .filter(({ state, lastWorkerIdentity: at }) => state === STARTED && isOf(server, at))
      .map(({ activityId }) => activityId!);
  };
  const end = performance.now() + AT_WORK_WITHIN_MS;
  while (performance.now() < Math.min(end, busyAt + IDLE_MS)) {
    if ((await held()).length > 0) {
      await server.freeze();
      const ids = await held();
      if (ids.length > 0) return ids;
      server.thaw();
    }
    await delay(LOOK_EVERY_MS);
  }
  return undefined;
}

/**
 * Waits until one of these activities has an attempt of the successor's.
 *
 * @returns false when they have all ended without: what the frozen worker last said was on its way.
 */
async function tookOver(move: Watched, held: readonly string[], successor: Server): Promise<boolean> {
  let hasEnded = false;
  const look = async () => {
    // Not by a query, which the server may still send to the worker that is frozen.
    const { pendingActivities } = (await move.describe()).raw;
    const left = (pendingActivities ?? []).filter(({ activityId }) => held.includes(activityId!));
    hasEnded = left.length === 0;
    if (hasEnded || left.some(({ lastWorkerIdentity }) => isOf(successor, lastWorkerIdentity))) return true;
    return left.map(({ activityType }) => activityType?.name).join(", ");
  };
  await pollUntil("the new worker has taken over", look, {
    everyMs: LOOK_EVERY_MS,
    deadlineMs: TAKEN_OVER_WITHIN_MS,
  });
  if (!hasEnded) return true;
  const { events } = await move.fetchHistory();
  const ids = new Set(
    (events ?? [])
      .filter(({ activityTaskScheduledEventAttributes: scheduled }) =>
        held.includes(scheduled?.activityId ?? ""),
      )
      .map(({ eventId }) => String(eventId)),
  );
  return (events ?? []).some(
    ({ activityTaskStartedEventAttributes: started }) =>
      started && ids.has(String(started.scheduledEventId)) && isOf(successor, started.identity),
  );
}
