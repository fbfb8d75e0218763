// Runs a command in this process and gives what it wrote and how it would have ended.

import { Command } from 'commander';
import { vi } from 'vitest';

export interface CommandOutcome {
  readonly output: string;
  readonly notes: string;
  /** What the command threw. */
  readonly error: unknown;
  readonly exitCode: string | number | null | undefined;
}

export async function runCommand(
  add: (program: Command) => void,
  words: readonly string[],
): Promise<CommandOutcome> {
  let output = '';
  let notes = '';
  const stdout = vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    output += text;
    return true;
  });
  const stderr = vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    notes += text;
    return true;
  });
  const exitCodeBefore = process.exitCode;
  process.exitCode = undefined;
  let error: unknown;
  try {
    const program = new Command().exitOverride();
    add(program);
    for (const command of program.commands) command.exitOverride();
    await program.parseAsync([...words], { from: 'user' });
  } catch (thrown) {
    error = thrown;
  } finally {
    stdout.mockRestore();
    stderr.mockRestore();
  }
  const { exitCode } = process;
  process.exitCode = exitCodeBefore;
  return { output, notes, error, exitCode };
}
