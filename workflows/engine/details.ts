import { failedUndo } from "./state.ts";
import type { Figures, MigrationState, StepProgress, Word } from "./state.ts";

/**
 * The state as Markdown for the workflow's page in the UI: what moves where, how far it is, what it waits for, and
 * the command to say so. Pure. Held in memory and asked for by the UI; it costs no history event.
 */
export function renderDetails(state: MigrationState, workflowId: string): string {
  return [headline(state), ...notices(state, workflowId), table(state), closing(state, workflowId)]
    .filter((part) => part !== "")
    .join("\n\n");
}

function headline(state: MigrationState): string {
  const dry = state.dryRun ? " (dry run: nothing is changed)" : "";
  if (!state.admitted) return `**${state.kind}**: checking the input${dry}`;
  const { subject, source, destination } = state;
  return `**${state.kind}**: ${safe(subject)}, ${safe(source)} → ${safe(destination)}${dry}\n\nStatus: **${state.status}**, phase ${state.phase}`;
}

function notices(state: MigrationState, workflowId: string): string[] {
  const parts: string[] = [];
  if (state.waitingFor !== undefined) {
    const input = `{"gate":"${state.waitingFor}","by":"<you>"}`;
    parts.push(`**Waits for approval of ${state.waitingFor}.** ${command("approve", workflowId, input)}`);
  }
  if (state.paused !== undefined) {
    const hold =
      state.status === "paused" ? "Paused" : "Will pause before the next phase that allows it; asked";
    parts.push(`**${hold}** ${spoken(state.paused)}. ${command("resume", workflowId, '{"by":"<you>"}')}`);
  }
  if (state.status === "needs attention") {
    const again = command("resume", workflowId, '{"by":"<you>"}');
    const then = failedUndo(state)
      ? `The undo of ${state.phase} is tried again by itself, within 15 minutes. When the cause is gone, at once`
      : `When the cause is gone, have ${state.phase} run again`;
    parts.push(`**Needs attention.** ${then}: ${again}`);
  }
  if (state.abort !== undefined) parts.push(`Abort asked ${spoken(state.abort)}.`);
  if (state.cancellationIgnored !== undefined) {
    parts.push(`A cancellation of the workflow was ignored: ${state.cancellationIgnored}.`);
  }
  if (state.lastError !== undefined)
    parts.push(`Last error, in ${state.lastError.phase}: ${safe(state.lastError.message)}`);
  for (const fault of state.undoErrors) parts.push(`Undo of ${fault.phase} failed: ${safe(fault.message)}`);
  if (state.lag !== undefined) {
    const { ms, revisions } = state.lag;
    const lag = [
      ms === undefined ? [] : `${ms} ms`,
      revisions === undefined ? [] : `${revisions} revisions`,
    ].flat();
    parts.push(`Destination behind by ${lag.join(", ")}.`);
  }
  return parts;
}

function table(state: MigrationState): string {
  const rows = state.steps.map((step) => {
    const gate = state.gates.includes(step.name) ? gateOf(state, step.name) : "";
    return `| ${step.name} | ${step.state} | ${duration(step)} | ${gate} | ${figures(step.figures)} | ${safe(step.summary)} |`;
  });
  return [
    "| phase | state | took | gate | progress | what it does |",
    "|---|---|---|---|---|---|",
    ...rows,
  ].join("\n");
}

function gateOf(state: MigrationState, name: string): string {
  const approval = state.approvals.find(({ gate }) => gate === name);
  return approval === undefined ? "to approve" : `approved ${spoken(approval)}`;
}

function closing(state: MigrationState, workflowId: string): string {
  if (state.endedAt !== undefined) return `Ended: ${state.status}.`;
  if (!state.abortable) return `Cannot be aborted: ${state.notAbortableBecause ?? ""}.`;
  return `Can be aborted: ${command("abort", workflowId, '{"by":"<you>","reason":"<why>"}')}`;
}

function command(update: string, workflowId: string, input: string): string {
  return `\`temporal workflow update execute --workflow-id ${quote(workflowId)} --name ${update} --input '${input}'\``;
}

/** A shell word. Workflow ids are chosen by whoever starts the move. */
function quote(text: string): string {
  return /^[\w./:@-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`).replaceAll("`", "")}'`;
}

function spoken({ by, at, reason }: Word): string {
  const why = reason === undefined ? "" : ` (${safe(reason)})`;
  return `by ${safe(by)} at ${new Date(at).toISOString()}${why}`;
}

function duration({ startedAt, endedAt }: StepProgress): string {
  if (startedAt === undefined) return "";
  if (endedAt === undefined) return `since ${new Date(startedAt).toISOString()}`;
  const ms = endedAt - startedAt;
  return ms < 10_000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`;
}

function figures(known: Figures | undefined): string {
  if (known === undefined) return "";
  const { done, total, unit, perSecond } = known;
  const of = total === undefined ? "" : ` of ${total}`;
  const rate = perSecond === undefined ? "" : `, ${Math.round(perSecond)}/s`;
  return `${done}${of} ${safe(unit)}${rate}`;
}

/** Text from outside, so that it can neither break the table nor pose as markup. */
function safe(text: string): string {
  return text.replaceAll(/[\\`*_[\]<>|#]/g, "\\$&").replaceAll(/\s+/g, " ");
}
