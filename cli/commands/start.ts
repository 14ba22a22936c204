import { WorkflowExecutionAlreadyStartedError } from "@temporalio/common";
import type { Client, WorkflowHandle } from "@temporalio/client";
import { TASK_QUEUE } from "../../workflows/engine/names.ts";
import { CommandError, EXIT } from "../exit-codes.ts";
import { follow } from "../follow.ts";
import { defaultWorkflowId } from "../input.ts";
import type { CheckedInput } from "../input.ts";
import { commandFor, START_A_WORKER } from "../view/hints.ts";
import type { Hints } from "../view/hints.ts";
import type { Outcome } from "../view/sight.ts";

export interface StartOptions {
  readonly checked: CheckedInput;
  readonly workflowId?: string;
  readonly taskQueue?: string;
  readonly hints: Hints;
}

/**
 * Starts a move. A finished one of the same id is no hindrance; a running one is.
 *
 * @throws CommandError when a move of this id is running.
 */
export async function startMove(client: Client, options: StartOptions): Promise<WorkflowHandle> {
  const { checked, hints, taskQueue = TASK_QUEUE } = options;
  const workflowId = options.workflowId ?? defaultWorkflowId(checked);
  const { kind, kindName, input } = checked;
  const summary = input["dryRun"] === true ? `Plan: ${kind.summary(input)}` : kind.summary(input);
  try {
    return await client.workflow.start(kindName, {
      workflowId,
      taskQueue,
      args: [input],
      workflowIdReusePolicy: "ALLOW_DUPLICATE",
      workflowIdConflictPolicy: "FAIL",
      staticSummary: summary,
      staticDetails: detailsOf(checked, hints),
    });
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    throw new CommandError(
      EXIT.failed,
      `${workflowId} is running already, so nothing was started. Watch it: ${commandFor(hints, "watch", workflowId)}`,
      error,
    );
  }
}

/** What the UI shows beside the history, in Markdown. */
function detailsOf({ kindName, input }: CheckedInput, { by, program }: Hints): string {
  // A name that is chosen freely must not be able to end the code block early.
  const json = JSON.stringify(input, undefined, 2).replaceAll("`", "'");
  return [
    `Started by ${by.replaceAll(/[^\p{L}\p{N} .@_-]/gu, "-")} with \`${program} start\`.`,
    `Input of \`${kindName}\`:`,
    `\`\`\`json\n${json}\n\`\`\``,
    "Current details, above, say how far it is and give the commands to approve, resume and abort.",
  ].join("\n\n");
}

/** What to tell when nobody would take the move up; undefined when somebody polls. */
export async function missingWorker(
  client: Client,
  taskQueue: string = TASK_QUEUE,
): Promise<string | undefined> {
  const { pollers } = await client.workflowService.describeTaskQueue({
    namespace: client.options.namespace,
    taskQueue: { name: taskQueue },
  });
  if ((pollers ?? []).length > 0) return undefined;
  return `no worker polls the task queue ${taskQueue}: the move waits until one runs. Start one: ${START_A_WORKER}`;
}

/** A preflight that takes longer is watched by those who want to know. */
const ADMITTED_WITHIN_MS = 15_000;

/**
 * Waits until the preflight has let the move in, or has refused it.
 *
 * @returns how the move ended, when it has; undefined when it is on its way, or its preflight takes longer.
 */
export async function untilAdmitted(client: Client, workflowId: string): Promise<Outcome | undefined> {
  const signal = AbortSignal.timeout(ADMITTED_WITHIN_MS);
  for await (const { state, outcome } of follow({ client, workflowId, signal, intervalMs: 100 })) {
    if (outcome !== undefined) return outcome;
    if (state?.admitted === true) return undefined;
  }
  return undefined;
}
