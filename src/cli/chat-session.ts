// A chat in the terminal: the conversation, the commands, and Ctrl-C. Knows neither where answers come from nor whether a
// person or a script asks.

import { visible } from '../text/visible.ts';
import type { AnswerEvent, AnswerUsage, ChatAnswers, ChatMessage } from './chat-answers.ts';
import { type LineInput, type LineOutput, LineReader } from './line-reader.ts';
import { UsageError } from './usage-error.ts';

interface ChatSessionOptions {
  readonly answers: ChatAnswers;
  readonly input: LineInput;
  readonly output: LineOutput;
  readonly notices: NodeJS.WritableStream;
  readonly system: string | undefined;
  readonly nowMs: () => number;
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
const HELP = '/stats, /clear, /system TEXT, /exit; Ctrl-C stops an answer';

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
    this.#lines = new LineReader(options.input, options.output, () => this.interrupt());
  }

  async run(): Promise<boolean> {
    if (this.#lines.isTerminal) this.#notice(`chatting with ${this.#options.answers.name}; ${HELP}`);
    for (;;) {
      const line = await this.#lines.next(PROMPT);
      if (line === undefined) break;
      this.#interrupts = 0;
      const text = line.trim();
      const [, command, argument = ''] = /^\/([a-z]+)(?:\s+(.*))?$/s.exec(text) ?? [];
      if (command === 'exit') break;
      if (command !== undefined) this.#obey(command, argument.trim());
      else if (text !== '') await this.#ask(text);
    }
    this.#lines.close();
    return !this.#failed;
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
      default:
        this.#notice(`there is no /${command}; there are ${HELP}`);
    }
  }

  async #ask(question: string): Promise<void> {
    const asked: ChatMessage[] = [...this.#turns, { role: 'user', content: question }];
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
    try {
      for await (const event of answers.answer([...system, ...asked], signal)) {
        if (event.kind === 'end') {
          const { reason, usage } = event;
          const endedMs = nowMs();
          this.#measured.push({ reason, usage, startedMs, firstMs: firstMs ?? endedMs, endedMs });
        } else if (event.text !== '') {
          firstMs ??= nowMs();
          if (event.kind === 'text') answer += event.text;
          thinks = this.#show(event, thinks);
        }
      }
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      this.#failed = true;
      if (answer !== '' || thinks) output.write('\n');
      this.#notice(error.message);
      return answer;
    }
    if (answer !== '' || thinks) output.write('\n');
    return answer;
  }

  /** Reasoning is dimmed above the answer. Returns whether the last text was reasoning. */
  #show({ kind, text }: Extract<AnswerEvent, { text: string }>, thinks: boolean): boolean {
    const { output } = this.#options;
    if (kind === 'text') {
      output.write(`${thinks ? '\n\n' : ''}${visible(text)}`);
      return false;
    }
    if (this.#lines.isTerminal) output.write(DIM + visible(text) + NOT_DIM);
    return this.#lines.isTerminal;
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
