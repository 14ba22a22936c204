import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { WorkflowHandle } from "@temporalio/client";
import proto from "@temporalio/proto";

/**
 * The protocol's own type turns histories into JSON and back. The SDK's `historyToJSON` and `historyFromJSON` fail
 * wherever npm installs a second copy of protobufjs, which other dependencies make it do.
 */
const { History } = proto.temporal.api.history.v1;
type History = proto.temporal.api.history.v1.History;

const FOLDER = fileURLToPath(new URL("./histories", import.meta.url));

export interface RecordedHistory {
  readonly kind: string;
  /** What the history is an example of: `completed`, `aborted in Copy`. */
  readonly shape: string;
  readonly history: History;
}

/** All recorded histories, by kind and shape: `histories/<kind>/<shape>.json`. */
export async function readHistories(): Promise<RecordedHistory[]> {
  const files = (await readdir(FOLDER, { recursive: true }))
    .filter((name) => name.endsWith(".json"))
    .toSorted();
  return await Promise.all(
    files.map(async (name) => ({
      kind: dirname(name),
      shape: name.slice(dirname(name).length + 1, -".json".length),
      history: History.fromObject(JSON.parse(await readFile(join(FOLDER, name), "utf8")) as object),
    })),
  );
}

/**
 * Saves the history of one run, without what names the machine that it was recorded on. Replay does not look at that.
 *
 * @returns the file.
 */
export async function saveHistory(handle: WorkflowHandle, kind: string, shape: string): Promise<string> {
  const history = History.fromObject(await handle.fetchHistory());
  const plain = History.toObject(history, { longs: String, enums: String, bytes: String });
  const file = join(FOLDER, kind, `${shape}.json`);
  await mkdir(dirname(file), { recursive: true });
  await writeFile(file, `${JSON.stringify(plain, anonymous)}\n`);
  return file;
}

/** What the SDK calls a worker, and its sticky queue, by default: `<pid>@<host>`. */
const PROCESS = /^\d+@/;

function anonymous(key: string, value: unknown): unknown {
  if (key === "stackTrace") return "";
  return typeof value === "string" && PROCESS.test(value) ? "worker" : value;
}
