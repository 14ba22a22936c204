/** Writes a line for people to the log of the node. */
export function tell(line: string): void {
  console.error(`${new Date().toISOString()} ${line}`);
}

/** What an error says, with what it says of its cause: a failed request tells why in the latter only. */
export function wordsOf(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? `${message}: ${wordsOf(cause)}` : message;
}
