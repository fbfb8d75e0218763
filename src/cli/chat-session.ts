// A chat in the terminal: the conversation, the commands, and Ctrl-C. Knows neither where answers come from nor whether a
// person or a script asks.

import { visible } from '../text/visible.ts';
import type { AnswerEvent, AnswerUsage, ChatAnswers, ChatMessage } from './chat-answers.ts';
import type { ChatHistory } from './chat-history.ts';
import { droppedImages, withImages } from './image-arguments.ts';
import { type LineInput, type LineOutput, LineReader } from './line-reader.ts';
import { USUAL_COLUMNS } from './terminal.ts';
import { TerminalMarkdown } from './terminal-markdown.ts';
import { UsageError } from './usage-error.ts';
import { WordWrap } from './word-wrap.ts';

interface ChatSessionOptions {
  readonly answers: ChatAnswers;
  readonly input: LineInput;
  readonly output: LineOutput;
  readonly notices: NodeJS.WritableStream;
  readonly system: string | undefined;
  readonly nowMs: () => number;
  /** At a terminal: renders Markdown. */
  readonly colour?: boolean;
  readonly history?: ChatHistory | undefined;
}

/** What to print for pieces of an answer, and in the end. */
interface Printer {
  write(text: string): string;
  /** Of reasoning. */
  dim(text: string): string;
  end(): string;
}

interface Measured {
  readonly usage: AnswerUsage | undefined;
  readonly reason: string;
  readonly startedMs: number;
  readonly firstMs: number;
  readonly endedMs: number;
}

const PROMPT = '> ';
const DIM = '\x1b[2m';
const NOT_DIM = '\x1b[22m';
const MORE = '… ';
const QUOTES = '"""';
const HELP = [
  '/help           shows this',
  '/system TEXT    tells the model TEXT before the conversation; without TEXT nothing',
  '/clear          starts a new conversation',
  '/stats          shows tokens and speed of the answers',
  '/exit           ends the chat; so do /bye, /quit and Ctrl-D',
  '"""             begins and ends a message of several lines',
  'Ctrl-C          stops an answer; the up arrow brings back what was typed',
].join('\n');
const LEAVE = new Set(['exit', 'quit', 'bye']);

export class ChatSession {
  readonly #options: ChatSessionOptions;
  readonly #lines: LineReader;
  readonly #measured: Measured[] = [];
  #system: string | undefined;
  #turns: ChatMessage[] = [];
  #answering: AbortController | undefined;
  #interrupts = 0;
  #failed = false;

  constructor(options: ChatSessionOptions) {
    this.#options = options;
    this.#system = options.system;
    const { input, output, history } = options;
    this.#lines = new LineReader(input, output, () => this.interrupt(), history);
  }

  async run(): Promise<boolean> {
    if (this.#lines.isTerminal)
      this.#notice(`chatting with ${this.#options.answers.name}; /help shows what else there is`);
    for (;;) {
      const line = await this.#lines.next(PROMPT);
      if (line === undefined) break;
      this.#interrupts = 0;
      const first = line.trim();
      const text = await this.#whole(first);
      const [, command, argument = ''] = /^\/([a-z]+|\?)(?:\s+(.*))?$/s.exec(first) ?? [];
      if (command !== undefined && LEAVE.has(command)) break;
      if (command !== undefined) this.#obey(command, argument.trim());
      else if (text !== '') await this.#ask(text);
    }
    this.#lines.close();
    return !this.#failed;
  }

  /** A message that begins with three quotation marks goes on until three others, or the end of the input. */
  async #whole(first: string): Promise<string> {
    if (!first.startsWith(QUOTES)) return first;
    const lines = [first.slice(QUOTES.length)];
    while (!lines.at(-1)?.trimEnd().endsWith(QUOTES)) {
      const line = await this.#lines.next(MORE);
      if (line === undefined) return lines.join('\n').trim();
      lines.push(line);
    }
    return lines.join('\n').trim().slice(0, -QUOTES.length).trim();
  }

  /** Stops a running answer; at the prompt the second Ctrl-C in a row ends the chat. */
  interrupt(): void {
    if (this.#answering !== undefined) this.#answering.abort();
    else if (++this.#interrupts >= 2) this.#lines.close();
    else this.#lines.restart('Ctrl-C again, or /exit, to leave');
  }

  #obey(command: string, argument: string): void {
    switch (command) {
      case 'stats':
        this.#notice(this.#stats());
        break;
      case 'clear':
        this.#turns = [];
        this.#notice('the conversation starts anew');
        break;
      case 'system':
        this.#system = argument === '' ? undefined : argument;
        this.#notice(argument === '' ? 'no system message' : 'the system message is set');
        break;
      case 'help':
      case '?':
        this.#notice(HELP);
        break;
      default:
        this.#notice(`there is no /${command}; there are\n${HELP}`);
    }
  }

  async #ask(question: string): Promise<void> {
    const { text, paths } = droppedImages(question);
    if (paths.length > 0) this.#notice(`with ${paths.join(', ')}`);
    const asked: ChatMessage[] = [...this.#turns, { role: 'user', content: withImages(text, paths) }];
    const stop = new AbortController();
    this.#answering = stop;
    const answer = await this.#receive(asked, stop.signal);
    this.#answering = undefined;
    if (stop.signal.aborted) this.#notice('stopped');
    // A stopped answer stays in the conversation; a question without any answer does not.
    if (answer !== '') this.#turns = [...asked, { role: 'assistant', content: answer }];
  }

  async #receive(asked: readonly ChatMessage[], signal: AbortSignal): Promise<string> {
    const { answers, output, nowMs } = this.#options;
    const system: ChatMessage[] =
      this.#system === undefined ? [] : [{ role: 'system', content: this.#system }];
    const startedMs = nowMs();
    let firstMs: number | undefined;
    let answer = '';
    let thinks = false;
    let isWhole = false;
    const printer = this.#printer();
    try {
      for await (const event of answers.answer([...system, ...asked], signal)) {
        if (event.kind === 'end') {
          isWhole = true;
          const { reason, usage } = event;
          const endedMs = nowMs();
          this.#measured.push({ reason, usage, startedMs, firstMs: firstMs ?? endedMs, endedMs });
        } else if (event.text !== '') {
          firstMs ??= nowMs();
          if (event.kind === 'text') answer += event.text;
          thinks = this.#show(event, thinks, printer);
        }
      }
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      this.#failed = true;
      output.write(printer.end());
      if (answer !== '' || thinks) output.write('\n');
      this.#notice(error.message);
      return answer;
    }
    if (signal.aborted && !isWhole && firstMs !== undefined) {
      this.#measured.push({ reason: 'Ctrl-C', usage: undefined, startedMs, firstMs, endedMs: nowMs() });
    }
    output.write(printer.end());
    if (answer !== '' || thinks) output.write('\n');
    return answer;
  }

  /** Reasoning is dimmed above the answer. Returns whether the last text was reasoning. */
  #show({ kind, text }: Extract<AnswerEvent, { text: string }>, thinks: boolean, printer: Printer): boolean {
    const { output } = this.#options;
    if (kind === 'text') {
      const shown = visible(text);
      output.write(printer.write(`${thinks ? '\n\n' : ''}${shown}`));
      return false;
    }
    if (this.#lines.isTerminal) output.write(printer.dim(visible(text)));
    return this.#lines.isTerminal;
  }

  /** At a terminal that knows styles, and so how to go back, lines are broken between words. */
  #printer(): Printer {
    const { output, colour } = this.#options;
    const dimmed = (text: string) => DIM + text + NOT_DIM;
    if (!this.#lines.isTerminal || colour !== true) {
      return { write: (text) => text, dim: dimmed, end: () => '' };
    }
    const wrap = new WordWrap(() => output.columns || USUAL_COLUMNS);
    const markdown = new TerminalMarkdown(wrap);
    return {
      write: (text) => markdown.write(text),
      dim: (text) => wrap.write(dimmed(text)),
      end: () => markdown.end(),
    };
  }

  #stats(): string {
    const last = this.#measured.at(-1);
    if (last === undefined) return 'no answer yet';
    const total = (count: (usage: AnswerUsage) => number) =>
      this.#measured.reduce((sum, { usage }) => sum + (usage === undefined ? 0 : count(usage)), 0);
    return [
      describe(last),
      `in all (${this.#measured.length}): ${total(({ promptTokens }) => promptTokens)} prompt tokens ` +
        `(${total(({ cachedTokens }) => cachedTokens)} cached), ${total(({ answerTokens }) => answerTokens)} answer tokens`,
    ].join('\n');
  }

  #notice(text: string): void {
    this.#options.notices.write(`${text}\n`);
  }
}

function describe({ usage, reason, startedMs, firstMs, endedMs }: Measured): string {
  const wait = `first text after ${((firstMs - startedMs) / 1000).toFixed(2)} s`;
  if (usage === undefined) return `last answer: ${wait}, ended by ${reason}`;
  const { promptTokens, cachedTokens, answerTokens } = usage;
  // The first token came with the prompt.
  const speed = endedMs > firstMs ? ((1000 * (answerTokens - 1)) / (endedMs - firstMs)).toFixed(1) : '-';
  return (
    `last answer: ${promptTokens} prompt tokens (${cachedTokens} cached), ${wait}, ` +
    `${answerTokens} answer tokens at ${speed} tokens/s, ended by ${reason}`
  );
}
