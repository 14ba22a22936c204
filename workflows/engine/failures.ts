import {
  ActivityFailure,
  ApplicationFailure,
  CancelledFailure,
  ChildWorkflowFailure,
  TemporalFailure,
  TimeoutFailure,
} from "@temporalio/common";

/**
 * Every way in which a step of a move can fail, and whether trying the same call again can help.
 * The set is closed: `activities/classify.ts` turns what libraries throw into one of these, and nothing else
 * crosses from an activity to a workflow.
 */
export const FAILURES = {
  /** The input is malformed or contradicts itself. Only a new start with other input helps. */
  InvalidInput: { retryable: false },
  /** The input is sound, but the state of a system forbids the move. */
  Refused: { retryable: false },
  /** A person, or a cancellation of the workflow, stopped the move. */
  Aborted: { retryable: false },
  /** The lock on the subject is gone or is held by another move. */
  LockLost: { retryable: false },
  /**
   * A newer attempt of this move has raised the epoch: whatever this attempt still wants to do is void. Nobody waits
   * for the answer of such an attempt; should it be the current one after all, its next attempt outranks the other.
   */
  Superseded: { retryable: true },
  /** The move did not complete within the fence's time, and took the fence off again. */
  FenceBudgetExceeded: { retryable: false },
  /** For a while the point of no return could not be passed, and was not: it is tried again later. */
  NotCommitted: { retryable: false },
  /** Something was found changed that only this move may change. */
  Conflict: { retryable: false },
  /** The destination is not equal to the source. */
  NotVerified: { retryable: false },
  /** The history that was to be read is no longer kept by the store: the next attempt begins at a newer revision. */
  Compacted: { retryable: true },
  /** Credentials are missing, expired or not sufficient. */
  Unauthorized: { retryable: false },
  /** A system does not answer, or answers that it cannot serve now. */
  Unreachable: { retryable: true },
  /** A wait came to its deadline. */
  Timeout: { retryable: true },
  /** An answer that nobody foresaw. Tried again, because most are passing. */
  Unexpected: { retryable: true },
} as const satisfies Record<string, { readonly retryable: boolean }>;

export type FailureType = keyof typeof FAILURES;

/** What a person needs in order to act on a failure. No field may hold a credential or tenant data. */
export interface FailureFacts {
  /** One sentence that names the object: `logical cluster 2x8f… is being deleted`. */
  readonly message: string;
  /** Name of the site (shard, seed, cluster, DNS server) that it was found at. */
  readonly site?: string;
  readonly expected?: string;
  readonly found?: string;
  /** What to do about it, as an instruction. */
  readonly advice?: string;
}

/** The facts in one line, in a fixed order, so that messages of all kinds read alike. */
export function describeFacts(facts: FailureFacts): string {
  const where = facts.site === undefined ? "" : ` (at ${facts.site})`;
  const parts = [`${facts.message}${where}`];
  if (facts.expected !== undefined) parts.push(`expected: ${facts.expected}`);
  if (facts.found !== undefined) parts.push(`found: ${facts.found}`);
  if (facts.advice !== undefined) parts.push(facts.advice);
  return parts.join("; ");
}

/**
 * Makes the only kind of error that activities and workflows of this project throw.
 *
 * @param type decides whether the call is tried again (see {@link FAILURES}).
 * @param facts a sentence, or the sentence with its facts; the facts also become `details[0]`.
 * @param cause the library's error. Its message is kept in the history: pass only what `classify.ts` has cleaned.
 */
export function failure(type: FailureType, facts: FailureFacts | string, cause?: Error): ApplicationFailure {
  const known: FailureFacts = typeof facts === "string" ? { message: facts } : facts;
  return ApplicationFailure.create({
    type,
    message: describeFacts(known),
    nonRetryable: !FAILURES[type].retryable,
    details: [known],
    ...(cause === undefined ? {} : { cause }),
  });
}

export function isFailureType(value: unknown): value is FailureType {
  return typeof value === "string" && Object.hasOwn(FAILURES, value);
}

/** The error and its causes, outermost first. */
function* chain(error: unknown): Generator<Error> {
  let current: unknown = error;
  while (current instanceof Error) {
    yield current;
    current = current.cause;
  }
}

/** The first `ApplicationFailure` in the chain: what the activity, or the workflow's own code, has thrown. */
export function applicationFailure(error: unknown): ApplicationFailure | undefined {
  for (const link of chain(error)) if (link instanceof ApplicationFailure) return link;
  return undefined;
}

/**
 * The type of a failure, seen through `ActivityFailure` and `ChildWorkflowFailure`.
 * A time limit of Temporal counts as `Timeout`, a cancellation as `Aborted`, everything unknown as `Unexpected`.
 */
export function failureType(error: unknown): FailureType {
  for (const link of chain(error)) {
    if (link instanceof ApplicationFailure) return isFailureType(link.type) ? link.type : "Unexpected";
    if (link instanceof TimeoutFailure) return "Timeout";
    if (link instanceof CancelledFailure) return "Aborted";
  }
  return "Unexpected";
}

/** Whether the error is, or was caused by, a failure of one of these types. */
export function isFailure(error: unknown, ...types: readonly FailureType[]): boolean {
  return types.includes(failureType(error));
}

/**
 * Whether the failed call itself said, for good, that it failed. Only then is its effect known. After a time
 * limit, a lost worker or exhausted retries the call may have taken effect.
 */
export function isConclusive(error: unknown): boolean {
  return applicationFailure(error)?.nonRetryable === true;
}

/** Whether the error is of Temporal's family. Any other error in workflow code is a defect of that code. */
export function isTemporalFailure(error: unknown): error is TemporalFailure {
  return error instanceof TemporalFailure;
}

function describeLink(link: Error): string | undefined {
  if (link instanceof ApplicationFailure) {
    return link.type === undefined || link.type === null ? link.message : `${link.type}: ${link.message}`;
  }
  if (link instanceof TimeoutFailure)
    return TIMEOUT_WORDS[link.timeoutType ?? ""] ?? "it ran into a time limit";
  if (link instanceof CancelledFailure) return "it was cancelled";
  return undefined;
}

const TIMEOUT_WORDS: Readonly<Record<string, string>> = {
  START_TO_CLOSE: "one attempt took longer than allowed",
  SCHEDULE_TO_START: "no worker took it up in time: is a worker running on its task queue?",
  SCHEDULE_TO_CLOSE: "all attempts together took longer than allowed",
  HEARTBEAT: "its worker stopped answering",
};

/**
 * What went wrong, in one sentence a person can act on: `copyRange failed: Unreachable: etcd of shard-1 …`.
 * Unwraps the layers that Temporal puts round an activity's own words.
 */
export function plainWords(error: unknown): string {
  const subjects: string[] = [];
  for (const link of chain(error)) {
    if (link instanceof ActivityFailure) subjects.push(link.activityType.replace(/^dryRun:/, ""));
    else if (link instanceof ChildWorkflowFailure)
      subjects.push(link.execution.workflowId ?? link.workflowType);
    else {
      const words = describeLink(link) ?? link.message;
      return subjects.length === 0 ? words : `${subjects.join(", ")} failed: ${words}`;
    }
  }
  return subjects.length === 0 ? String(error) : `${subjects.join(", ")} failed`;
}
