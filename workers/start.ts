import { Worker } from "@temporalio/worker";
import type {
  NativeConnection,
  WorkerDeploymentOptions,
  WorkerOptions,
  WorkflowBundle,
} from "@temporalio/worker";
import { TASK_QUEUE, followQueue, transferQueue } from "../workflows/engine/names.ts";

export interface StartOptions {
  readonly connection: NativeConnection;
  readonly namespace: string;
  /** By activity name; those of dry runs under their prefixed names. All queues get all of them. */
  readonly activities: object;
  readonly bundle: WorkflowBundle;
  /** Queue for workflows and steps; the others are derived from it. */
  readonly taskQueue?: string;
  /** How long running activities may go on after a stop before they are cancelled and left to other workers. */
  readonly shutdownGraceMs?: number;
  /** How many bulk transfers run at once in this process: each holds pages of data in memory. */
  readonly maxTransfers?: number;
  readonly deployment?: WorkerDeploymentOptions;
}

export interface RunningWorkers {
  /** Stops polling, lets running activities end within the grace time, and returns when all is still. */
  stop(): Promise<void>;
  /** Settles when the workers have ended; rejects when they ended by an error. */
  readonly ended: Promise<void>;
  /** Whether all poll. */
  isPolling(): boolean;
}

/** Longer than the default fence budget, so that a cutover under way is not cut off by a rolling update. */
const SHUTDOWN_GRACE_MS = 15_000;
const MAX_TRANSFERS = 32;
/** Each reads all changes of a shard. A move that finds no slot catches up in its cutover, before the fence. */
const MAX_FOLLOWED = 64;

/**
 * Starts three workers in this process that share a connection: one for workflows and their steps; one for bulk
 * transfers, so that a cutover never queues behind a copy; and one for what goes on while a move waits, so that no
 * copy or cleanup queues behind that.
 */
export async function startWorkers(options: StartOptions): Promise<RunningWorkers> {
  const { taskQueue = TASK_QUEUE, maxTransfers = MAX_TRANSFERS } = options;
  const common = commonOptions(options);
  const workers = [
    await Worker.create({
      ...common,
      taskQueue,
      workflowBundle: options.bundle,
      // A query that comes between a step's end and the workflow task for it runs the workflow ahead, and where that is cached an
      // update which comes next is handled later than in any replay: "Nondeterminism error: Update machine does not handle this
      // event", for ever (seen with @temporalio/worker 1.24, after worker deaths and resets). Nor does a dead worker's
      // sticky queue hold a task then.
      maxCachedWorkflows: 0,
      // They are run one at a time then. The others wait at the server, for any worker, and not here, where their time runs out.
      maxConcurrentWorkflowTaskExecutions: 2,
    }),
    await Worker.create({
      ...common,
      taskQueue: transferQueue(taskQueue),
      maxConcurrentActivityTaskExecutions: maxTransfers,
    }),
    await Worker.create({
      ...common,
      taskQueue: followQueue(taskQueue),
      maxConcurrentActivityTaskExecutions: MAX_FOLLOWED,
    }),
  ];
  const runs = workers.map(async (worker) => await worker.run());
  const ended = endTogether(workers, runs);
  return {
    ended,
    isPolling: () => workers.every((worker) => worker.getState() === "RUNNING"),
    async stop() {
      stopAll(workers);
      await ended;
    },
  };
}

function commonOptions(options: StartOptions): Omit<WorkerOptions, "taskQueue"> {
  const { connection, namespace, activities, shutdownGraceMs = SHUTDOWN_GRACE_MS, deployment } = options;
  return {
    connection,
    namespace,
    activities,
    shutdownGraceTime: shutdownGraceMs,
    // An activity that does not heed its cancellation must not keep the process for ever.
    shutdownForceTime: shutdownGraceMs + 15_000,
    // A cancellation reaches an activity with the answer to a heartbeat. The default of up to a minute would make an
    // abort wait that long for the tail to stop.
    maxHeartbeatThrottleInterval: "1 second",
    defaultHeartbeatThrottleInterval: "1 second",
    ...(deployment === undefined ? {} : { workerDeploymentOptions: deployment }),
  };
}

/** One without the others would leave moves hanging: when one ends, all do, and its error is the process's. */
async function endTogether(workers: readonly Worker[], runs: readonly Promise<void>[]): Promise<void> {
  try {
    await Promise.race(runs);
  } finally {
    stopAll(workers);
    await Promise.allSettled(runs);
  }
  await Promise.all(runs);
}

function stopAll(workers: readonly Worker[]): void {
  for (const worker of workers) if (worker.getState() === "RUNNING") worker.shutdown();
}
