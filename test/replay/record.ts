import { Client, Connection } from "@temporalio/client";
import { Command } from "commander";
import { saveHistory } from "./histories.ts";

interface Flags {
  readonly address: string;
  readonly namespace: string;
  readonly runId?: string;
}

/** Saves a history from a server for the replay test: `node test/replay/record.ts <workflow id> <shape>`. */
async function record(
  workflowId: string,
  shape: string,
  { address, namespace, runId }: Flags,
): Promise<void> {
  const connection = await Connection.connect({ address });
  try {
    const handle = new Client({ connection, namespace }).workflow.getHandle(workflowId, runId);
    const { type } = await handle.describe();
    const file = await saveHistory(handle, type, shape);
    process.stdout.write(`${file}\n`);
  } finally {
    await connection.close();
  }
}

await new Command("record")
  .argument("<workflow-id>")
  .argument("<shape>", "what the history is an example of, as a file name: aborted-in-copy")
  .option("--address <host:port>", "Temporal server", "127.0.0.1:7233")
  .option("--namespace <name>", "its namespace", "default")
  .option("--run-id <id>", "one run of several; the latest when left out")
  .action(record)
  .parseAsync();
