import { setTimeout as delay } from "node:timers/promises";
import { statusOf } from "./api.ts";
import { tell, wordsOf } from "./tell.ts";

const againAfterMs = 1_000;
/** The object is gone, or is another one by now, or will never be accepted: nothing is left to be done. */
const final = new Set([400, 404, 409, 422]);

/** Calls until it succeeds, or until the API server answers that it never will. Waits out a server that is away. */
export async function insist(what: string, call: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      await call();
      return;
    } catch (error) {
      const status = statusOf(error);
      if (status !== 404) tell(`${what}: ${wordsOf(error)}`);
      if (status !== undefined && final.has(status)) return;
      await delay(againAfterMs);
    }
  }
}
