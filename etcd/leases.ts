import { createHash } from "node:crypto";
import type { Store } from "./store.ts";

/**
 * The destination's lease lives a little longer than the origin's: while a move tails, a key must disappear because
 * its deletion at the origin was carried over, and not before that.
 */
const SLACK_S = 120;

/** Gives each lease of the origin (events and the like) one lease at the destination with the time that remains. */
export class LeaseMap {
  readonly #origin: Store;
  readonly #destination: Store;
  readonly #known = new Map<string, Promise<string>>();

  constructor(origin: Store, destination: Store) {
    this.#origin = origin;
    this.#destination = destination;
  }

  /** @param lease id of the origin's lease, "0" for none. @returns the id to use at the destination, "0" for none. */
  async destinationLease(lease: string): Promise<string> {
    if (lease === "0") return "0";
    let granted = this.#known.get(lease);
    if (!granted) {
      granted = this.#grant(lease);
      this.#known.set(lease, granted);
      granted.catch(() => this.#known.delete(lease));
    }
    return await granted;
  }

  async #grant(lease: string): Promise<string> {
    // The id follows from the origin's, so a second attempt finds the lease of the first instead of making another.
    const digest = createHash("sha256").update(`rehome:${this.#origin.name}:${lease}`).digest();
    const id = (digest.readBigUInt64BE() >> 1n).toString();
    const { TTL } = await this.#origin.leases.leaseTimeToLive({ ID: lease });
    const remainingS = Math.max(1, Number(TTL));
    try {
      await this.#destination.leases.leaseGrant({ ID: id, TTL: remainingS + SLACK_S });
    } catch (error) {
      if (!(error instanceof Error && error.message.includes("lease already exists"))) throw error;
    }
    return id;
  }
}
