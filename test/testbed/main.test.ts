import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { identityOf } from "../../testbed/process-identity.ts";
import { exitCodeOf, lineOf, startNode, waitUntilGone } from "./wait.ts";

const main = join(import.meta.dirname, "..", "..", "testbed", "main.ts");
let folder: string;

interface Description {
  readonly rehomeConfig: string;
  readonly workspaces: readonly { readonly path: string; readonly objects: number }[];
  readonly processes: readonly { readonly name: string; readonly pid: number }[];
}

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rehome-main-"));
});

afterEach(async () => {
  await rm(folder, { recursive: true });
});

it.each([
  [["up"], "missing required argument 'kind'"],
  [["up", "nothing"], "Allowed choices are logical-cluster"],
  [["up", "logical-cluster", "--sizes", "12,many"], "Wanted are numbers of objects"],
  [["build", "nothing"], "Allowed choices are"],
  [["down"], "unknown command 'down'"],
])("refuses %j with exit code 2", async (args, message) => {
  const child = startNode(main, args, folder);
  const ended = lineOf(child, /never/);
  await expect(ended).rejects.toThrow(message);
  expect(await exitCodeOf(child)).toBe(2);
});

it("brings everything up, describes it, refuses a second one, and leaves nothing after SIGINT", async () => {
  const child = startNode(main, ["up", "logical-cluster", "--sizes", "20"], folder);
  expect(await lineOf(child, /^ready$/)).toBe("ready");
  const description = JSON.parse(
    await readFile(join(folder, ".rehome", "testbed.json"), "utf8"),
  ) as Description;
  expect(description.workspaces).toMatchObject([{ path: "root:objects-20", objects: 20 }]);
  expect(await readFile(description.rehomeConfig, "utf8")).toContain("shard-1:");
  const processes = description.processes.map(({ pid }) => identityOf(pid));

  const second = startNode(main, ["up", "logical-cluster"], folder);
  await expect(lineOf(second, /never/)).rejects.toThrow(`a test bed is up already (process ${child.pid})`);
  expect(await exitCodeOf(second)).toBe(1);

  child.kill("SIGINT");
  expect(await exitCodeOf(child)).toBe(0);
  await waitUntilGone(processes, 0);
  expect(await readdir(join(folder, ".rehome"))).toEqual([]);
}, 300_000);

it("stops at once when it is told to before it is ready", async () => {
  const child = startNode(main, ["up", "logical-cluster"], folder);
  child.stderr?.once("data", () => child.kill("SIGTERM"));
  await expect(lineOf(child, /^ready$/)).rejects.toThrow("stopped before it was ready");
  expect(await exitCodeOf(child)).toBe(1);
  expect(await readdir(join(folder, ".rehome"))).toEqual([]);
});
