import { setTimeout as delay } from "node:timers/promises";
import { pollUntil } from "../../../kubernetes/wait.ts";
import { SEARCH_ATTRIBUTES } from "../../../workflows/engine/names.ts";
import type { Server } from "../../../testbed/process.ts";
import type { AnyMove } from "./moves.ts";
import { makeWorker } from "./worker.ts";

/** How long a zombie is left beside its successor at least: it writes at once if anything lets it. */
const AWAKE_MS = 3_000;

type Described = Awaited<ReturnType<AnyMove["describe"]>>;

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

  /** Stops the worker as it stands, with all its connections and thoughts, and starts another. */
  async freeze(): Promise<{ thaw(): void }> {
    const server = this.#current;
    await server.freeze();
    const zombie: Zombie = { server };
    this.#zombies.push(zombie);
    this.#current = await makeWorker(this.#config);
    await this.#current.start();
    const thaw = () => {
      zombie.awakeAt = performance.now();
      server.thaw();
    };
    return { thaw };
  }

  /** Waits until the new worker has begun a step that the frozen one had, or the move has got on without it. */
  async untilTakenOver(move: Pick<AnyMove, "describe">): Promise<void> {
    const mine = `${this.#current.pid}@`;
    // Not by a query, which the server may still send to the worker that is frozen.
    const before = phaseOf(await move.describe());
    const look = async () => {
      const described = await move.describe();
      const { pendingActivities, pendingWorkflowTask } = described.raw;
      const pending = pendingActivities ?? [];
      if (pending.some(({ lastWorkerIdentity }) => lastWorkerIdentity?.startsWith(mine))) return true;
      if (described.status.name !== "RUNNING" || phaseOf(described) !== before) return true;
      // It waits for a person: no worker had anything to do, or the new one has done it already.
      if (pending.length === 0 && !pendingWorkflowTask) return true;
      return pending
        .map(({ activityType, lastWorkerIdentity }) => `${activityType?.name} by ${lastWorkerIdentity}`)
        .join(", ");
    };
    await pollUntil("the new worker has taken over", look, { everyMs: 100, deadlineMs: 120_000 });
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

function phaseOf({ typedSearchAttributes }: Described): string | undefined {
  return typedSearchAttributes.get(SEARCH_ATTRIBUTES.phase);
}
