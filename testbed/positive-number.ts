import { InvalidArgumentError } from "commander";

/** Reads an option's value. @throws InvalidArgumentError for what is no whole number above zero */
export function positiveNumber(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1) throw new InvalidArgumentError("give a number above zero");
  return value;
}
