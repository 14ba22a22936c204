import { now } from "./caller.ts";
import type { Caller, Request } from "./caller.ts";
import { isAbsence, isSuccess } from "./http.ts";
import type { Ledger, LostWrite, Write } from "./ledger.ts";
import { contentOf, makeObject, objectPath, payloadOf } from "./resources.ts";
import type { Resource, StoredObject } from "./resources.ts";
import { keyOf } from "./watcher.ts";

export interface Place {
  readonly resource: Resource;
  readonly namespace: string;
  /** Path or id, in turns: both must lead to the same objects. Undefined for an API server with one cluster only. */
  readonly address: () => string | undefined;
  /** Of every object written. */
  readonly labels?: Readonly<Record<string, string>>;
}

type MakeRequest = (write: Write) => Omit<Request, "resource" | "isTriedAgain">;

const conflict = 409;
const conflictRetries = 4;

/** What the writers of one resource have noticed beside the ledger. */
export interface Findings {
  /** Reads by the writer itself that contradict what was acknowledged to it. */
  readonly lost: LostWrite[];
  /** Reads by others that showed less than was acknowledged before they were sent. */
  readonly stale: string[];
  /** Objects whose resourceVersion went backwards. */
  readonly regressions: string[];
}

/**
 * The one writer of one object. Every write carries its number and the
 * resourceVersion that it builds on. After an answer that leaves open whether
 * it took effect, it reads before it writes again.
 */
export class Writer {
  readonly key: string;
  readonly #name: string;
  readonly #place: Place;
  readonly #caller: Caller;
  readonly #ledger: Ledger;
  readonly #findings: Findings;
  #object: StoredObject | undefined;
  #isDoubtful = false;
  #isBusy = false;

  constructor(name: string, place: Place, tools: { caller: Caller; ledger: Ledger; findings: Findings }) {
    this.#name = name;
    this.#place = place;
    this.#caller = tools.caller;
    this.#ledger = tools.ledger;
    this.#findings = tools.findings;
    this.key = keyOf(place.resource, name);
  }

  get isIdle(): boolean {
    return !this.#isBusy;
  }

  /** As far as the writer knows. */
  get exists(): boolean {
    return this.#object !== undefined;
  }

  /** The newest resourceVersion that the server has told the writer, 0 before the first. */
  get resourceVersion(): bigint {
    return BigInt(this.#object?.metadata.resourceVersion ?? "0");
  }

  async create(): Promise<void> {
    const { resource, namespace, address } = this.#place;
    await this.#write("put", ({ number }) => ({
      verb: "create",
      path: objectPath(address(), resource, namespace),
      body: this.#body(number),
      ...this.#pardon(409),
    }));
  }

  async update(): Promise<void> {
    await this.#write("put", ({ number }) => ({
      verb: "update",
      path: this.#path(),
      body: this.#body(number),
      ...this.#pardon(409),
    }));
  }

  /** As {@link Writer.update}, with a merge patch that carries the resourceVersion. */
  async patch(): Promise<void> {
    await this.#write("put", ({ number }) => ({
      verb: "patch",
      path: this.#path(),
      body: this.#body(number),
      contentType: "application/merge-patch+json",
      ...this.#pardon(409),
    }));
  }

  /** As {@link Writer.update}, by server-side apply. */
  async apply(): Promise<void> {
    await this.#write("put", ({ number }) => ({
      verb: "apply",
      path: `${this.#path()}?fieldManager=clients&force=true`,
      body: this.#body(number),
      contentType: "application/apply-patch+yaml",
      ...this.#pardon(409),
    }));
  }

  async remove(): Promise<void> {
    await this.#write("delete", () => {
      const { uid, resourceVersion } = this.#object?.metadata ?? {};
      return {
        verb: "delete",
        path: this.#path(),
        body: { apiVersion: "v1", kind: "DeleteOptions", preconditions: { uid, resourceVersion } },
        ...this.#pardon(404),
      };
    });
  }

  async #write(kind: Write["kind"], make: MakeRequest): Promise<void> {
    this.#isBusy = true;
    try {
      // After a doubt was settled, what was to be done may be done already: the next turn decides anew.
      if (this.#isDoubtful) await this.#settle();
      else await this.#attempt(kind, make);
    } finally {
      this.#isBusy = false;
    }
  }

  /** With client-go's `RetryOnConflict`: who is told of a conflict reads and tries again, four times at most. */
  async #attempt(kind: Write["kind"], make: MakeRequest): Promise<void> {
    for (let left = conflictRetries; ; left -= 1) {
      const status = await this.#attemptOnce(kind, make, left > 0);
      if (status !== conflict || left === 0) return;
      await this.#settle();
      if (this.#isDoubtful) return;
    }
  }

  async #attemptOnce(kind: Write["kind"], make: MakeRequest, isTriedAgain: boolean): Promise<number> {
    const write = this.#ledger.begin(this.key, kind, now());
    const { plural } = this.#place.resource;
    const response = await this.#caller.call({ ...make(write), resource: plural, isTriedAgain });
    const { status, body, uncertain } = response;
    if (isSuccess(status)) {
      this.#ledger.acknowledge(write);
      this.#adopt(kind === "delete" ? undefined : (body as StoredObject));
      return status;
    }
    if (!uncertain) this.#ledger.refuse(write);
    this.#isDoubtful = true;
    // Where an earlier attempt may have been the winner, reading tells whether anything is left to do.
    return uncertain ? 0 : status;
  }

  /** Reads the object, and takes what is there as the answer to what was open. */
  async #settle(): Promise<void> {
    const { resource } = this.#place;
    const response = await this.#caller.call({
      verb: "get",
      resource: resource.plural,
      path: this.#path(),
      alsoFine: 404,
    });
    if (!isSuccess(response.status) && !isAbsence(response)) return;
    const object = isAbsence(response) ? undefined : (response.body as StoredObject);
    const observed = object === undefined ? null : (contentOf(resource, object)?.version ?? -1);
    const lost = this.#ledger.settle(this.key, observed);
    if (lost !== undefined) this.#findings.lost.push(lost);
    this.#adopt(object);
    this.#isDoubtful = false;
  }

  #adopt(object: StoredObject | undefined): void {
    if (object !== undefined && BigInt(object.metadata.resourceVersion) < this.resourceVersion) {
      const { resourceVersion } = object.metadata;
      this.#findings.regressions.push(`${this.key}: ${resourceVersion} after ${this.resourceVersion}`);
    }
    this.#object = object;
  }

  /** An earlier write that nobody answered may turn up as a conflict; it is no failure of this one. */
  #pardon(status: number): { alsoFine?: number; fineAfterRetry: number } {
    // The one about to be sent is open too.
    return this.#ledger.openCount(this.key) > 1
      ? { alsoFine: status, fineAfterRetry: status }
      : { fineAfterRetry: status };
  }

  #path(): string {
    const { resource, namespace, address } = this.#place;
    return objectPath(address(), resource, namespace, this.#name);
  }

  #body(number: number): object {
    const { resource, namespace, labels } = this.#place;
    const { uid, resourceVersion } = this.#object?.metadata ?? {};
    const metadata = {
      name: this.#name,
      namespace,
      ...(labels === undefined ? {} : { labels }),
      ...(uid === undefined || resourceVersion === undefined ? {} : { uid, resourceVersion }),
    };
    return makeObject(resource, metadata, { version: number, payload: payloadOf(this.#name) });
  }
}
