import { setTimeout as delay } from "node:timers/promises";
import type { Client, WorkflowExecutionDescription, WorkflowHandle } from "@temporalio/client";
import type { MigrationState } from "../workflows/engine/state.ts";
import { SEARCH_ATTRIBUTES } from "../workflows/engine/names.ts";
import { outcomeOf } from "./outcome.ts";
import { isUnreachable, serverWords } from "./problems.ts";
import type { Indexed, Outcome, Sight, Silence, Work } from "./view/sight.ts";
import { WorkReader } from "./work.ts";

export interface FollowOptions {
  readonly client: Client;
  readonly workflowId: string;
  /** Between two looks, in ms. A look is one query and one description: neither adds to the history. */
  readonly intervalMs?: number;
  /** Ends the following, not the move. */
  readonly signal?: AbortSignal;
}

const INTERVAL_MS = 500;
/** A worker that lives answers in milliseconds; without one the server would hold the question for much longer. */
const ANSWER_WITHIN_MS = 4000;
/** How long a look waits for the answer before it is made without. */
const PATIENCE_MS = 250;

/**
 * Looks at a move again and again until it has ended; the last sight has the outcome. Restarts of workers and of
 * Temporal are part of what is seen, not errors.
 *
 * @throws WorkflowNotFoundError when there is no such move; what the client throws when the very first look fails.
 */
export async function* follow(options: FollowOptions): AsyncGenerator<Sight, void, undefined> {
  const { client, workflowId, intervalMs = INTERVAL_MS } = options;
  const stop = new AbortController();
  const signal = options.signal === undefined ? stop.signal : AbortSignal.any([options.signal, stop.signal]);
  const observer = new Observer(client, workflowId, signal);
  try {
    while (!signal.aborted) {
      const sight = await observer.look();
      yield sight;
      if (sight.outcome !== undefined) return;
      await observer.news(intervalMs);
    }
  } finally {
    stop.abort();
  }
}

class Observer {
  readonly #client: Client;
  readonly #signal: AbortSignal;
  readonly #reader: WorkReader;
  /** The latest run: the move may continue as new. */
  readonly #latest: WorkflowHandle;
  /** The chain of runs that was seen first: a later move of the same name is another. */
  #chain: WorkflowHandle | undefined;
  #described: WorkflowExecutionDescription | undefined;
  #work: readonly Work[] = [];
  #state: MigrationState | undefined;
  #answeredAt: number | undefined;
  #asking: Promise<void> | undefined;
  #ending: Promise<void> | undefined;
  #silentWorker: Silence | undefined;
  #silentServer: Silence | undefined;

  constructor(client: Client, workflowId: string, signal: AbortSignal) {
    this.#client = client;
    this.#signal = signal;
    this.#reader = new WorkReader(client);
    this.#latest = client.workflow.getHandle(workflowId);
  }

  async look(): Promise<Sight> {
    const seen = await this.#describe();
    if (seen === "running") {
      this.#asking ??= this.#ask();
      await Promise.race([this.#asking, delay(PATIENCE_MS)]);
      return this.#sight();
    }
    await this.#asking;
    // The last word of the move: what it said before its end is out of date.
    if (seen === "ended") await this.#ask();
    return this.#sight(this.#chain && (await outcomeOf(this.#chain)));
  }

  /** Waits until the interval is over or the move has ended. */
  async news(intervalMs: number): Promise<void> {
    const pause = delay(intervalMs, undefined, { signal: this.#signal }).catch(() => undefined);
    // Held open by the server, so that the end is learnt at once. Asked again when it breaks.
    this.#ending ??= this.#awaitEnd();
    await Promise.race([pause, this.#ending]);
    if (this.#silentServer !== undefined) await pause;
  }

  async #awaitEnd(): Promise<void> {
    try {
      await this.#client.withAbortSignal(this.#signal, async () => await this.#chain?.result());
    } catch {
      // Both a failed move and a lost connection are told by the next look.
    } finally {
      this.#ending = undefined;
    }
  }

  /** @returns `replaced` when the move has ended and another of its name has been started since. */
  async #describe(): Promise<"running" | "ended" | "replaced"> {
    try {
      const described = await this.#timely(async () => await this.#latest.describe());
      const firstRunId = firstRunIdOf(described);
      this.#chain ??= this.#client.workflow.getHandle(described.workflowId, firstRunId);
      this.#silentServer = undefined;
      if (this.#described !== undefined && firstRunIdOf(this.#described) !== firstRunId) return "replaced";
      this.#described = described;
      this.#work = await this.#reader.read(described);
      const runs = described.closeTime === undefined || described.status.name === "CONTINUED_AS_NEW";
      return runs ? "running" : "ended";
    } catch (error) {
      if (this.#described === undefined || !isUnreachable(error)) throw error;
      this.#silentServer ??= { since: Date.now(), who: "Temporal", why: serverWords(error) };
      return "running";
    }
  }

  async #ask(): Promise<void> {
    try {
      this.#state = await this.#timely(async () => await this.#latest.query<MigrationState>("progress"));
      this.#answeredAt = Date.now();
      this.#silentWorker = undefined;
    } catch (error) {
      this.#silentWorker ??= { since: Date.now(), who: "worker", why: serverWords(error) };
    } finally {
      this.#asking = undefined;
    }
  }

  async #timely<T>(call: () => Promise<T>): Promise<T> {
    return await this.#client.withDeadline(
      Date.now() + ANSWER_WITHIN_MS,
      async () => await this.#client.withAbortSignal(this.#signal, call),
    );
  }

  #sight(outcome?: Outcome): Sight {
    const described = this.#described;
    if (described === undefined) throw new Error("nothing has been seen yet");
    const { workflowId, type, closeTime } = described;
    const silence = this.#silentServer ?? this.#silentWorker;
    return {
      workflowId,
      kind: type,
      at: Date.now(),
      startedAt: this.#state?.startedAt ?? described.startTime.getTime(),
      work: outcome === undefined ? this.#work : [],
      indexed: indexedBy(described),
      ...(closeTime === undefined ? {} : { closedAt: closeTime.getTime() }),
      ...(this.#state === undefined ? {} : { state: this.#state }),
      ...(this.#answeredAt === undefined ? {} : { answeredAt: this.#answeredAt }),
      ...(silence === undefined || outcome !== undefined ? {} : { silence }),
      ...(outcome === undefined ? {} : { outcome }),
    };
  }
}

function firstRunIdOf({ raw, runId }: WorkflowExecutionDescription): string {
  return raw.workflowExecutionInfo?.firstRunId ?? runId;
}

/** What the server keeps about the move for searching. */
export function indexedBy({
  typedSearchAttributes,
}: Pick<WorkflowExecutionDescription, "typedSearchAttributes">): Indexed {
  const found = {
    phase: typedSearchAttributes.get(SEARCH_ATTRIBUTES.phase),
    subject: typedSearchAttributes.get(SEARCH_ATTRIBUTES.subject),
    source: typedSearchAttributes.get(SEARCH_ATTRIBUTES.source),
    destination: typedSearchAttributes.get(SEARCH_ATTRIBUTES.destination),
  };
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}
