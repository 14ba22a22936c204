import { afterStep, judgeStep, quorumOf } from "../../etcd/membership/plan.ts";
import type { Evidence, PlannedMember, Site, Step } from "../../etcd/membership/plan.ts";

export const proven: Evidence = { hashesEqual: true, alarms: [] };

export function member(id: string, change: Partial<PlannedMember> = {}): PlannedMember {
  const site: Site = id.startsWith("s") ? "source" : "destination";
  const well = { started: true, healthy: true, inSync: true, leader: false };
  return { id, site, learner: false, ...well, ...change };
}

export const voters = (...ids: string[]) => ids.map((id) => member(id));
export const learner = (id: string) => member(id, { learner: true });

/** What happens to a call after it was allowed. */
export type Fate = "acknowledged" | "landed, then timed out" | "lost" | "late";

export type Event =
  | {
      readonly type: "step";
      readonly step: Step | "forward" | "back";
      readonly fate: Fate;
      readonly unseen: string | undefined;
    }
  | { readonly type: "down" | "up"; readonly id: string }
  | { readonly type: "the late call lands" };

/** A cluster as etcd keeps it, with a call that may still be on its way. */
export class World {
  members: readonly PlannedMember[];
  readonly #history: string[] = [];
  /** Voters at the source and the destination before and after each change, e.g. `3+2 3+3`. */
  readonly changes = new Set<string>();
  readonly #down = new Set<string>();
  #joined = 3;
  #late: { readonly step: Step; unseen: number } | undefined;

  get #shape(): string {
    const count = (site: Site) => this.members.filter((each) => !each.learner && each.site === site).length;
    return `${count("source")}+${count("destination")}`;
  }

  constructor(members: readonly PlannedMember[]) {
    this.members = members;
  }

  run(event: Event): void {
    if (event.type === "step") this.#try(event);
    else if (event.type === "the late call lands") this.#landLate();
    else this.#setDown(event.id, event.type === "down");
  }

  #setDown(id: string, down: boolean): void {
    if (down === this.#down.has(id)) return;
    if (this.#late) this.#late.unseen += 1;
    if (down) this.#down.add(id);
    else this.#down.delete(id);
    this.members = this.members.map((each) => ({ ...each, healthy: !this.#down.has(each.id) }));
  }

  /** One attempt: a look, a judgement, perhaps a failure that nobody has seen, and the call. */
  #try({ step: wanted, fate, unseen }: Event & { type: "step" }): void {
    const step = wanted === "forward" ? this.#forward() : wanted === "back" ? this.#back() : wanted;
    if (judgeStep(this.members, step, proven).refusals.length > 0) return;
    if (unseen !== undefined) this.#setDown(unseen, true);
    // Raft takes no second change while one is on its way (raft.go, `pendingConfIndex`): it drops the proposal.
    if (fate === "lost" || this.#late) return;
    if (fate === "late") this.#late = { step, unseen: unseen === undefined ? 0 : 1 };
    else this.#land(step);
    // Whoever was not told tries again: etcd is sent the same call twice.
    if (fate === "landed, then timed out") this.#land(step);
  }

  /** What lands late was allowed on another look: one member may have failed or come back since, not two. */
  #landLate(): void {
    const call = this.#late;
    this.#late = undefined;
    if (call && call.unseen <= 1) this.#land(call.step);
  }

  /** etcd's own rules, as it applies a change: one learner, ids are never used again. */
  #land(step: Step): void {
    const before = quorumOf(this.members);
    const shape = this.#shape;
    if (step.kind === "add-learner") this.#addLearner();
    else this.members = afterStep(this.members, step);
    const after = quorumOf(this.members);
    this.changes.add(`${shape} ${this.#shape}`);
    this.#history.push(
      `${JSON.stringify(step)} ${before.healthy}/${before.voters} → ${after.healthy}/${after.voters}`,
    );
    if (before.spare < 0) return;
    if (after.spare < 0) throw new Error(`the quorum is gone:\n${this.#history.join("\n")}`);
  }

  /** The next step of a move. */
  #forward(): Step {
    const candidate = this.members.find((each) => each.learner);
    if (candidate)
      return { kind: this.members.length === 6 ? "promote-to-even" : "promote", id: candidate.id };
    const source = this.members.find(({ site }) => site === "source");
    const joined = this.members.filter(({ site }) => site === "destination").length;
    return joined === 3 && source ? { kind: "remove", id: source.id } : { kind: "add-learner" };
  }

  /** The next step of its undo. */
  #back(): Step {
    return { kind: "remove", id: this.members.findLast(({ site }) => site === "destination")?.id ?? "none" };
  }

  #addLearner(): void {
    const id = `d${this.#joined}`;
    if (this.members.some((each) => each.learner)) return;
    this.#joined += 1;
    this.members = [...this.members, { ...learner(id), healthy: !this.#down.has(id) }];
  }
}
