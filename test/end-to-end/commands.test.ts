// The commands that people type first, by the real program: with pipes, and at a terminal.

import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { formatBytes } from '../../src/text/byte-size.ts';
import { embeddedModelPath } from '../support/embedded-model.ts';
import { type HubStandIn, startHub } from '../support/hub-stand-in.ts';
import {
  atTerminal,
  environmentOf,
  newHome,
  program,
  runProgram as run,
  type Surroundings,
} from '../support/program.ts';
import { waitUntil } from '../support/server-process.ts';

const bytes = readFileSync(embeddedModelPath);
const repositories = { 'ann/demo-GGUF': { 'demo-Q8_0.gguf': { bytes, lfs: true } } };

describe('chairlift run', () => {
  let hub: HubStandIn;
  let place: Surroundings;
  beforeAll(async () => {
    hub = await startHub(repositories);
    place = {
      home: newHome(),
      environment: { HF_ENDPOINT: hub.url, CHAIRLIFT_SHORT_NAMES: 'demo=ann/demo-GGUF' },
    };
  });
  afterAll(() => hub.close());

  it('pulls a model, answers one question, and prints nothing else to its output', async () => {
    const { output, notes, code } = await run(place, [
      'run',
      'hf.co/ann/demo-GGUF:Q8_0',
      'What is',
      '12 + 30?',
    ]);
    expect({ output, code }).toEqual({ output: '12 + 30 = 42.\n', code: 0 });
    expect(notes).toContain('pulling ann/demo-GGUF:Q8_0');
  });

  it('pulls it once, by whichever name; a pipe is a question, and goes before one', async () => {
    const brought = hub.contentRequests.length;
    const piped = await run(place, ['run', 'demo'], 'What is 3 + 4?\n');
    expect(piped).toEqual({ output: '3 + 4 = 7.\n', notes: '', code: 0 });
    const both = await run(
      place,
      ['run', '-hf', 'ann/demo-GGUF', '-p', '3 + 4?', '--ctx-size', '256'],
      'What is',
    );
    expect(both).toMatchObject({ output: expect.stringContaining('7'), code: 0 });
    expect(hub.contentRequests.length).toBe(brought);
  });

  it('says what is wrong in one line: no model, no such model, no question', async () => {
    expect(await run(place, ['run'])).toMatchObject({
      output: '',
      notes: expect.stringMatching(/^chairlift: name a model.*\n$/),
      code: 1,
    });
    const unknown = await run(place, ['run', 'nothing', 'Hi']);
    expect(unknown).toMatchObject({
      notes: expect.stringMatching(/^chairlift: there is no file and no model 'nothing'.*\n$/),
      code: 1,
    });
    const absent = await run(place, ['run', 'bob/nothing', 'Hi']);
    expect(absent).toMatchObject({
      notes: expect.stringContaining('there is no model bob/nothing at'),
      code: 1,
    });
    expect(await run(place, ['run', 'demo'])).toMatchObject({
      notes: expect.stringContaining('the input is empty'),
      code: 1,
    });
  });

  it('chats at a terminal, with its history in a file of its owner', async () => {
    const chat = atTerminal(place, ['run', 'demo']);
    await waitUntil(() => chat.shown().includes('chatting with demo') && chat.shown().includes('> '));
    chat.type('What is 5 + 6?\r');
    await waitUntil(() => chat.shown().includes('5 + 6 = 11.'));
    chat.type('/bye\r');
    expect(await chat.ended).toBe(0);
    const history = join(place.home, '.chairlift', 'chat-history');
    expect(readFileSync(history, 'utf8')).toBe('"What is 5 + 6?"\n"/bye"\n');
    expect(statSync(history).mode & 0o777).toBe(0o600);
  });

  it('removes what it has pulled, and nothing else', async () => {
    const path = join(place.home, '.chairlift/models/ann/demo-GGUF/demo-Q8_0.gguf');
    expect(existsSync(path)).toBe(true);
    expect(await run(place, ['rm', 'chairlift-demo-14m-q8_0'])).toMatchObject({
      notes: expect.stringContaining('only what lies there is removed'),
      code: 1,
    });
    expect(await run(place, ['rm', 'demo'])).toMatchObject({
      output: `removed demo-GGUF, ${formatBytes(bytes.length)}\n`,
      code: 0,
    });
    expect(existsSync(path)).toBe(false);
    expect(existsSync(embeddedModelPath)).toBe(true);
  });
});

describe('chairlift chat without a server', () => {
  const words = ['chat'];

  it('says so at once to a script', async () => {
    const { output, notes, code } = await run({ home: newHome() }, words, 'Hi\n');
    expect({ output, code }).toEqual({ output: '', code: 1 });
    expect(notes).toMatch(
      /^chairlift: no server answers at http:\/\/127\.0\.0\.1:\d+; start one with 'chairlift serve'/,
    );
  });

  it('offers a person a model in this process', async () => {
    const chat = atTerminal({ home: newHome() }, words);
    await waitUntil(() => chat.shown().includes('[Y/n]'));
    chat.type('\r');
    await waitUntil(() => chat.shown().includes('chatting with') && chat.shown().includes('> '));
    chat.type('What is 2 + 2?\r');
    await waitUntil(() => chat.shown().includes('2 + 2 = 4.'));
    chat.type('\x04');
    expect(await chat.ended).toBe(0);
    const declined = atTerminal({ home: newHome() }, words);
    await waitUntil(() => declined.shown().includes('[Y/n]'));
    declined.type('n\r');
    expect(await declined.ended).toBe(0);
  });
});

describe('what is mistyped, or of another program', () => {
  it.each([
    [['lgos'], /Did you mean logs\?/],
    [['serve', '--prot', '1'], /Did you mean --port\?/],
    [['serve', '-ngl', '99'], /--backend cpu/],
    [['serve', '--api-key', 'x'], /chairlift keys create/],
    [['serve', '--tensor-parallel-size', '2'], /docs\/fleet\.md/],
  ])('%j is answered with what to type', async (words, expected) => {
    const { notes, code } = await run({ home: newHome() }, words);
    expect(code).toBe(1);
    expect(notes).toMatch(expected);
  });
});

describe('a pipe whose reader has read enough', () => {
  it('ends a command without a word', () => {
    const place = { home: newHome() };
    const line = `"${process.execPath}" "${program}" man 2>notes | true; cat notes; echo end`;
    const output = execFileSync('sh', ['-c', line], { env: environmentOf(place), cwd: place.home });
    expect(output.toString()).toBe('end\n');
  });
});

describe('completion and manual', () => {
  const here = { home: newHome() };

  it('complete commands, options, choices and models in bash', async () => {
    const script = join(here.home, 'completion.bash');
    execFileSync('sh', ['-c', `'${process.execPath}' '${program}' completion bash > '${script}'`], {
      env: environmentOf(here),
    });
    const complete = (...words: string[]) =>
      execFileSync(
        'bash',
        [
          '-c',
          `
        chairlift() { '${process.execPath}' '${program}' "$@"; }
        source '${script}'
        COMP_WORDS=(chairlift ${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length}
        _chairlift; printf '%s\\n' "\${COMPREPLY[@]}"`,
        ],
        { env: environmentOf(here), cwd: here.home, encoding: 'utf8' },
      )
        .trim()
        .split('\n');
    expect(complete('serv')).toEqual(['serve']);
    expect(complete('se')).toEqual(expect.arrayContaining(['serve', 'search']));
    expect(complete('serve', '--log-f')).toEqual(['--log-format']);
    expect(complete('serve', '--log-format', '')).toEqual(['auto', 'text', 'json']);
    expect(complete('run', 'chairlift-d')).toEqual(['chairlift-demo-14m-q8_0']);
    expect(complete('completion', '--')).toContain('--help');
    // A name is data, whatever a shell would make of it.
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the shell's
    const hostile = 'a-$(touch${IFS}struck)';
    mkdirSync(join(here.home, '.chairlift', 'models'), { recursive: true });
    copyFileSync(embeddedModelPath, join(here.home, '.chairlift', 'models', `${hostile}.gguf`));
    expect(complete('run', 'a-')).toEqual([hostile]);
    expect(existsSync(join(here.home, 'struck'))).toBe(false);
  });

  it.each(['zsh', 'fish'])('name every command for %s', async (shell) => {
    const { output } = await run(here, ['completion', shell]);
    for (const name of ['run', 'serve', 'pull', 'inspect', 'logs', 'bench'])
      expect(output).toMatch(new RegExp(`\\b${name}\\b`));
  });

  it('describe every command and every setting in a page without errors', async () => {
    const { output } = await run(here, ['man']);
    for (const text of [
      '.SS run ',
      '.SS serve ',
      '\\-\\-max\\-batch\\-size <number>',
      '.SS keys create',
      '.SH EXAMPLES',
    ])
      expect(output).toContain(text);
    expect(output).not.toMatch(/`|\]\(|\[object|\$\{/);
    // Old versions of groff read bytes.
    expect(output).toMatch(/^[\n -~]*$/);
  });
});
