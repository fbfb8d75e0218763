// Coding agents as people run them, each through a whole turn: the model calls for a command, the agent runs it, the model
// answers from its output.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { aider, missing, programOf, runProgram } from '../support/clients.ts';
import { demoServer } from './demo-server.ts';

const reason = missing('npm');
const title = reason === undefined ? 'an agent' : `an agent (skipped: ${reason})`;
const template = fileURLToPath(new URL('short-conversation.jinja', import.meta.url));
const url = demoServer(
  ...['--chat-template', `chairlift-demo-14m-q8_0=${template}`],
  ...['--sampling-defaults', 'temperature=0'],
);

const linesOf = (output: string) =>
  output
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));

describe.skipIf(reason !== undefined)(title, () => {
  const home = mkdtempSync(join(tmpdir(), 'chairlift-agents-'));
  const work = join(home, 'work');
  mkdirSync(work);
  afterAll(() => rmSync(home, { recursive: true }));

  it('of Codex CLI, by Responses', async () => {
    const config = [
      'model = "demo"',
      'model_provider = "chairlift"',
      '[model_providers.chairlift]',
      'name = "chairlift"',
      `base_url = "${url()}/v1"`,
      'wire_api = "responses"',
    ];
    writeFileSync(join(home, 'config.toml'), config.join('\n'));
    const { output, errors } = await runProgram(
      programOf('codex'),
      [
        ...['exec', '--json', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox'],
        'Use exec_command with cmd "echo hello"',
      ],
      { cwd: work, env: { CODEX_HOME: home } },
    );
    const events = linesOf(output);
    const items = events.filter(({ type }) => type === 'item.completed').map(({ item }) => item);
    const ran = items.find(({ type }) => type === 'command_execution');
    expect(ran, `${output}\n${errors}`).toMatchObject({ aggregated_output: 'hello\n', exit_code: 0 });
    const said = items.at(-1);
    // What it makes of the result is the small model's business: Codex adds a number of its own to it.
    expect(said).toMatchObject({ type: 'agent_message', text: expect.stringMatching(/\S/) });
    const { usage } = events.at(-1);
    expect(usage.output_tokens).toBeGreaterThan(0);
    expect(usage.cached_input_tokens).toBeGreaterThan(0);
  });

  it('of opencode, by chat completions', async () => {
    const options = { baseURL: `${url()}/v1`, apiKey: 'none' };
    const models = { demo: { limit: { context: 32_000, output: 500 } } };
    const config = {
      model: 'chairlift/demo',
      small_model: 'chairlift/demo',
      autoupdate: false,
      share: 'disabled',
      provider: { chairlift: { npm: '@ai-sdk/openai-compatible', options, models } },
    };
    writeFileSync(join(work, 'opencode.json'), JSON.stringify(config));
    const { output, errors } = await runProgram(
      programOf('opencode'),
      // It puts quotes around arguments with a space.
      [...['run', '--format', 'json'], ...'Use bash with command "echo hello"'.split(' ')],
      { cwd: work, env: { OPENCODE_DISABLE_MODELS_FETCH: '1' } },
    );
    const events = linesOf(output);
    const ran = events.find(({ type }) => type === 'tool_use')?.part;
    expect(ran?.state, `${output}\n${errors}`).toMatchObject({ status: 'completed', output: 'hello\n' });
    expect(events.find(({ type }) => type === 'text').part.text).toBe('The result is hello.');
  });
});

const noAider = missing('aider');

describe.skipIf(noAider !== undefined)(
  noAider === undefined ? 'aider' : `aider (skipped: ${noAider})`,
  () => {
    const home = mkdtempSync(join(tmpdir(), 'chairlift-aider-'));
    afterAll(() => rmSync(home, { recursive: true }));

    it.each(['ollama', 'ollama_chat', 'openai'])('is answered by %s', async (way) => {
      const quiet = ['--no-git', '--no-pretty', '--no-show-model-warnings', '--no-show-release-notes'];
      const alone = ['--yes-always', '--analytics-disable', '--no-check-update'];
      const { code, output, errors } = await runProgram(
        aider,
        ['--model', `${way}/demo`, ...quiet, ...alone, '--edit-format', 'ask', '--message', 'Hello'],
        {
          cwd: home,
          env: {
            OLLAMA_API_BASE: url(),
            OPENAI_API_BASE: `${url()}/v1`,
            OPENAI_API_KEY: 'none',
            LITELLM_LOCAL_MODEL_COST_MAP: 'True',
          },
        },
      );
      expect(output, errors).toMatch(/Tokens: \d+ sent, [1-9]\d* received/);
      expect(code).toBe(0);
    });
  },
);
