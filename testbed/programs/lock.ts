import { randomUUID } from "node:crypto";
import { link, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { identityOf, isAlive } from "../process-identity.ts";
import type { ProcessIdentity } from "../process-identity.ts";

/** How often a waiter looks: the death of a process that is not a child raises no event. */
const lookEveryMs = 250;

export interface FileLock {
  release(): Promise<void>;
}

/** Takes the lock, or returns its living holder. A lock whose holder has died is taken over. */
export async function tryLock(file: string): Promise<FileLock | ProcessIdentity> {
  await mkdir(dirname(file), { recursive: true });
  for (;;) {
    if (await createExclusively(file)) return { release: () => rm(file, { force: true }) };
    const content = await readFile(file, "utf8").catch(() => undefined);
    if (content === undefined) continue;
    const holder = JSON.parse(content) as ProcessIdentity;
    if (isAlive(holder)) return holder;
    await removeStale(file, content);
  }
}

/** Waits for the lock; `onWait` is called once, with the holder, if it is taken. */
export async function acquireLock(
  file: string,
  onWait: (holder: ProcessIdentity) => void,
): Promise<FileLock> {
  for (let attempt = 0; ; attempt++) {
    const lock = await tryLock(file);
    if ("release" in lock) return lock;
    if (attempt === 0) onWait(lock);
    await delay(lookEveryMs);
  }
}

async function createExclusively(file: string): Promise<boolean> {
  const own = `${file}.${randomUUID()}`;
  await writeFile(own, JSON.stringify(identityOf(process.pid)));
  try {
    // A link appears with its whole content, so nobody reads a lock that is half written.
    await link(own, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  } finally {
    await rm(own);
  }
}

async function removeStale(file: string, staleContent: string): Promise<void> {
  const aside = `${file}.${randomUUID()}`;
  try {
    await rename(file, aside);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw error;
  }
  // Another process may have taken the lock over since it was read: then it gets it back.
  if ((await readFile(aside, "utf8")) !== staleContent) await link(aside, file).catch(() => undefined);
  await rm(aside);
}
