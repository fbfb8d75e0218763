import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import type { AnswerEvent, ChatAnswers, ChatMessage } from './chat-answers.ts';
import { type ChatHistory, openChatHistory } from './chat-history.ts';
import { ChatSession } from './chat-session.ts';
import { UsageError } from './usage-error.ts';

interface Script {
  /** Pieces of each answer; an error is thrown; 'wait' waits until it is stopped; (…) is reasoning. */
  readonly answers: readonly (readonly (string | Error)[])[];
  readonly terminal?: boolean;
  readonly system?: string;
  readonly colour?: boolean;
  readonly history?: ChatHistory;
}

const help = [
  expect.stringMatching(/^\/help /),
  expect.stringMatching(/^\/system TEXT /),
  expect.stringMatching(/^\/clear /),
  expect.stringMatching(/^\/stats /),
  expect.stringMatching(/^\/exit .*\/bye/),
  expect.stringMatching(/^""" /),
  expect.stringMatching(/^Ctrl-C /),
];

const usage = { promptTokens: 10, cachedTokens: 4, answerTokens: 3 };

function start({ answers, terminal = false, system, ...rest }: Script) {
  const asked: (readonly ChatMessage[])[] = [];
  const made: ChatAnswers = {
    name: 'a script',
    async *answer(messages, signal): AsyncGenerator<AnswerEvent, void, void> {
      const pieces = answers[asked.length] ?? [];
      asked.push(messages);
      for (const piece of pieces) {
        if (piece instanceof Error) throw piece;
        if (piece === 'wait') {
          await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
          return;
        }
        yield { kind: piece.startsWith('(') ? 'reasoning' : 'text', text: piece };
      }
      yield { kind: 'end', reason: 'stop', usage };
    },
    close: async () => {},
  };
  const stream = () =>
    Object.assign(new PassThrough({ encoding: 'utf8' }), terminal ? { isTTY: true, columns: 80 } : {});
  const input = Object.assign(stream(), { setRawMode: () => {} });
  const [output, notices] = [stream(), stream()];
  let shown = '';
  let noted = '';
  output.on('data', (text) => {
    shown += text;
  });
  notices.on('data', (text) => {
    noted += text;
  });
  let clock = 0;
  const nowMs = () => (clock += 500);
  const session = new ChatSession({ answers: made, input, output, notices, system, nowMs, ...rest });
  const ended = session.run();
  return { session, input, ended, asked, shown: () => shown, noted: () => noted };
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

async function piped(script: Script, lines: string) {
  const chat = start(script);
  chat.input.end(lines);
  const ok = await chat.ended;
  return { ok, asked: chat.asked, shown: chat.shown(), noted: chat.noted() };
}

const roles = (messages: readonly ChatMessage[] = []) =>
  messages.map(({ role, content }) => `${role}: ${content}`);

describe('a chat with a script on standard input', () => {
  it('answers line by line, remembers what was said, and writes nothing but answers', async () => {
    const { ok, asked, shown, noted } = await piped({ answers: [['Hel', 'lo'], ['Bye']] }, 'Hi\n\nGo\n');
    expect(ok).toBe(true);
    expect(shown).toBe('Hello\nBye\n');
    expect(noted).toBe('');
    expect(roles(asked[1])).toEqual(['user: Hi', 'assistant: Hello', 'user: Go']);
  });

  it('keeps thoughts out of the answer and of the conversation', async () => {
    const { asked, shown } = await piped({ answers: [['(so', '(and so', 'Yes'], ['No']] }, 'Hi\nHo\n');
    expect(shown).toBe('Yes\nNo\n');
    expect(roles(asked[1])).toEqual(['user: Hi', 'assistant: Yes', 'user: Ho']);
  });

  it('answers a last line without an end', async () => {
    expect((await piped({ answers: [['Hello']] }, 'Hi')).shown).toBe('Hello\n');
  });

  it('knows its commands', async () => {
    const { asked, noted } = await piped(
      { answers: [['A'], ['B'], ['C']], system: 'Be kind.' },
      '/stats\nHi\n/system Be short.\nHo\n/clear\n/system\nHey\n/stats\n/what\n/etc/hosts\n/exit\nnever\n',
    );
    expect(asked.map(roles)).toEqual([
      ['system: Be kind.', 'user: Hi'],
      ['system: Be short.', 'user: Hi', 'assistant: A', 'user: Ho'],
      ['user: Hey'],
      ['user: Hey', 'assistant: C', 'user: /etc/hosts'],
    ]);
    expect(noted.split('\n')).toEqual([
      'no answer yet',
      'the system message is set',
      'the conversation starts anew',
      'no system message',
      'last answer: 10 prompt tokens (4 cached), first text after 0.50 s, 3 answer tokens at 4.0 tokens/s, ended by stop',
      'in all (3): 30 prompt tokens (12 cached), 9 answer tokens',
      'there is no /what; there are',
      ...help,
      '',
    ]);
  });

  it('takes a message of several lines between three quotation marks', async () => {
    const { asked } = await piped(
      { answers: [['A'], ['B'], ['C']] },
      '"""one\n\ntwo"""\n"""whole"""\n"""\n/exit\n  cut',
    );
    expect(asked.map((messages) => messages.at(-1)?.content)).toEqual([
      'one\n\ntwo',
      'whole',
      '/exit\n  cut',
    ]);
  });

  it.each(['/bye', '/quit', '/exit'])('ends at %s', async (word) => {
    expect((await piped({ answers: [['A']] }, `Hi\n${word}\nHo\n`)).asked).toHaveLength(1);
  });

  it('goes on after a failure, forgets the question without an answer, and tells of it at the end', async () => {
    const answers = [[new UsageError('no server')], ['half', new UsageError('cut')], ['B']];
    const { ok, asked, shown, noted } = await piped({ answers }, 'Hi\nHo\nHey\n');
    expect(ok).toBe(false);
    expect(noted).toBe('no server\ncut\n');
    expect(shown).toBe('half\nB\n');
    expect(roles(asked[2])).toEqual(['user: Ho', 'assistant: half', 'user: Hey']);
  });

  it('does not let an answer steer the terminal', async () => {
    const { shown } = await piped({ answers: [['a\x1b[2Jb\x07\tc\r\n\u009bd é']] }, 'Hi\n');
    expect(shown).toBe('a␛[2Jb␇\tc␍\n⟨U+009B⟩d é\n');
  });
});

describe('a chat at a terminal', () => {
  it('renders Markdown in colour alone, and never to a file', async () => {
    for (const [colour, terminal, expected] of [
      [true, true, 'a \x1b[1mbold\x1b[22m word\n'],
      [false, true, 'a **bold** word\n'],
      [true, false, 'a **bold** word\n'],
    ] as const) {
      const chat = start({ answers: [['a *', '*bold*', '* word']], terminal, colour });
      chat.input.write('Hi\r');
      await until(() => chat.shown().includes('word\n'));
      expect(chat.shown()).toContain(expected);
      chat.input.write('/exit\r');
      await chat.ended;
    }
  });

  it('brings back what was typed, also in an earlier chat, from a file of its owner alone', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'chairlift-history-'));
    const file = join(folder, 'inside', 'history');
    const first = start({ answers: [['A']], terminal: true, history: openChatHistory(file) });
    first.input.write('What is 1 + 1?\r');
    await until(() => first.shown().includes('A\n'));
    first.input.write('/exit\r');
    await first.ended;
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const second = start({ answers: [['B']], terminal: true, history: openChatHistory(file) });
    second.input.write('\x1b[A\x1b[A\r');
    await until(() => second.shown().includes('B\n'));
    expect(roles(second.asked[0])).toEqual(['user: What is 1 + 1?']);
    second.input.write('/exit\r');
    await second.ended;
    rmSync(folder, { recursive: true });
  });

  it('shows thoughts dimmed, above the answer', async () => {
    const chat = start({ answers: [['(so', '(and so', 'Yes', '!']], terminal: true });
    chat.input.write('Hi\r');
    await until(() => chat.shown().includes('Yes!\n'));
    expect(chat.shown()).toContain('\x1b[2m(so\x1b[22m\x1b[2m(and so\x1b[22m\n\nYes!\n');
    chat.input.write('/exit\r');
    await chat.ended;
  });

  it('stops the answer alone at Ctrl-C, keeping what was said', async () => {
    const chat = start({ answers: [['Half', 'wait'], ['Whole']], terminal: true });
    chat.input.write('Hi\r');
    await until(() => chat.shown().includes('Half'));
    chat.input.write('\x03');
    await until(() => chat.noted().includes('stopped'));
    chat.input.write('/stats\r');
    await until(() => /first text after .* ended by Ctrl-C/.test(chat.noted()));
    chat.input.write('Ho\r');
    await until(() => chat.shown().includes('Whole'));
    chat.input.write('/exit\r');
    expect(await chat.ended).toBe(true);
    expect(roles(chat.asked[1])).toEqual(['user: Hi', 'assistant: Half', 'user: Ho']);
  });

  it('breaks the lines of answers and of reasoning between words', async () => {
    const filled = 'word '.repeat(15);
    const answers = [[`(${filled}reasoned`, `${filled}answered`, ' and\nmore']];
    const chat = start({ answers, terminal: true, colour: true });
    chat.input.write('Hi\r');
    await until(() => chat.shown().includes('more'));
    const takenBack = (part: string) => `word ${part}\x1b[${part.length}D\x1b[K\n${part}`;
    expect(chat.shown()).toContain(`${takenBack('rea')}soned`);
    expect(chat.shown()).toContain(`${takenBack('answ')}ered and\nmore`);
    chat.input.write('/exit\r');
    expect(await chat.ended).toBe(true);
  });

  it('ends at the second Ctrl-C in a row at the prompt, dropping what was typed at the first', async () => {
    const chat = start({ answers: [['Yes']], terminal: true });
    await until(() => chat.shown().includes('> '));
    chat.input.write('never mind\x03');
    await until(() => chat.shown().includes('Ctrl-C again'));
    chat.input.write('Hi\r');
    await until(() => chat.shown().includes('Yes\n'));
    chat.input.write('\x03');
    await until(() => chat.shown().split('Ctrl-C again').length === 3);
    chat.input.write('\x03');
    expect(await chat.ended).toBe(true);
    expect(chat.asked.map(roles)).toEqual([['user: Hi']]);
  });

  it('keeps what is typed while an answer comes for the next prompt, out of the answer', async () => {
    const chat = start({ answers: [['One', 'wait'], ['Two']], terminal: true });
    chat.input.write('Hi\r');
    await until(() => chat.shown().includes('One'));
    chat.input.write('early bird');
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(chat.shown()).not.toContain('early');
    chat.session.interrupt();
    await until(() => chat.shown().includes('early bird'));
    chat.input.write('\r');
    await until(() => chat.shown().includes('Two'));
    chat.input.write('\x04');
    await chat.ended;
    expect(roles(chat.asked[1]).at(-1)).toBe('user: early bird');
  });
});
