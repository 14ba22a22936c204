import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { Server } from "../process.ts";

const run = promisify(execFile);

/** Ends what runs in the namespaces named as arguments and removes them; those that are gone are passed over. */
const removal = `
for name in "$@"; do
  for pid in $(ip netns pids "$name" 2>/dev/null); do kill -KILL "$pid" 2>/dev/null; done
  ip link delete "$name" 2>/dev/null
  ip netns delete "$name" 2>/dev/null
done
true`;

const keeping = `
remove() { ${removal}
}
trap 'remove "$@"; exit 0' TERM
sleep infinity &
wait`;

/** Removes namespaces and the operator's ends of their links, which bear the same names. */
export async function removeNamespaces(names: readonly string[]): Promise<void> {
  await run("/bin/sh", ["-c", removal, "sh", ...names]);
}

/**
 * A process that removes the namespaces when it is told to end. A namespace
 * stays when its maker dies, but a server is ended then: so a server is made of it.
 */
export function keeper(namespaces: readonly string[], logFile: string): Server {
  return new Server({
    name: `namespaces ${namespaces.join(", ")}`,
    command: "/bin/sh",
    arguments: ["-c", keeping, "sh", ...namespaces],
    logFile,
    probe: async () => undefined,
  });
}
