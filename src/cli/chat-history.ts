// What was typed in chats, for the up arrow: a file of its owner alone, one line of JSON for each, the latest last.

import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const MOST_LINES = 500;

/** Latest first, as readline has it. */
export interface ChatHistory {
  readonly lines: readonly string[];
  save(lines: readonly string[]): void;
}

export function chatHistoryFile(home: string): string {
  return join(home, '.chairlift', 'chat-history');
}

export function openChatHistory(path: string): ChatHistory {
  return {
    lines: readLines(path).toReversed(),
    save(lines) {
      const kept = lines.slice(0, MOST_LINES).toReversed();
      try {
        mkdirSync(dirname(path), { recursive: true });
        writeFileSync(path, kept.map((line) => `${JSON.stringify(line)}\n`).join(''), { mode: 0o600 });
        // One that was there before may be open to others.
        chmodSync(path, 0o600);
      } catch {
        // A chat goes on without its history.
      }
    },
  };
}

function readLines(path: string): string[] {
  try {
    return readFileSync(path, 'utf8')
      .split('\n')
      .flatMap((line) => parsed(line));
  } catch {
    return [];
  }
}

/** A damaged line is left out. */
function parsed(line: string): string[] {
  try {
    const text: unknown = JSON.parse(line);
    return typeof text === 'string' ? [text] : [];
  } catch {
    return [];
  }
}
