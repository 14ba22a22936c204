/**
 * The guardian: a process of its own that ends servers when the process that
 * started them is gone, however it went (`kill -9` included). Its standard input
 * is a pipe from that process and is closed by the kernel with it. Lines read:
 * `add <pid> <start>` and `remove <pid>`; the argument is the run file to delete
 * when everything is ended.
 */
import { rmSync } from "node:fs";
import { createInterface } from "node:readline";
import { endProcessGroups } from "./process-group.ts";
import type { ProcessIdentity } from "./process-identity.ts";

const runFile = process.argv[2];
const groups = new Map<number, ProcessIdentity>();

// A terminal's Ctrl-C and a service manager's stop are meant for the parent: it decides how to end.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);

for await (const line of createInterface({ input: process.stdin })) {
  const [verb, pid, start] = line.split(" ");
  if (verb === "add" && start !== undefined) groups.set(Number(pid), { pid: Number(pid), start });
  else if (verb === "remove") groups.delete(Number(pid));
}
await endProcessGroups([...groups.values()]);
if (runFile !== undefined) rmSync(runFile, { force: true });
