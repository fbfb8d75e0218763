// What people type who come from Ollama, llama.cpp or vLLM: the list of docs/cli.md. Commands are parsed and not run.

import { CommanderError } from 'commander';
import { describe, expect, it } from 'vitest';
import { withLongFlags } from './foreign-flags.ts';
import { makeProgram } from './program.ts';

/** What the parser says to a command line: nothing where it is understood. */
async function refusal(line: string): Promise<string> {
  const words = line.split(' ');
  let said = '';
  const program = await makeProgram(words, (one) => {
    one.exitOverride().configureOutput({
      writeErr: (text) => {
        said += text;
      },
    });
  });
  const all = program.commands.flatMap((command) => [command, ...command.commands]);
  for (const command of all) if (command.commands.length === 0) command.action(() => {});
  try {
    await program.parseAsync(withLongFlags(['node', 'chairlift', ...words]));
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
  }
  return said;
}

const understood = [
  'run llama3.2:1b',
  'run hf.co/owner/repo:Q4_K_M Hi',
  'pull llama3.2:1b',
  'list',
  'ls',
  'ps',
  'show models/chairlift-demo-14m-q8_0.gguf',
  'rm llama3.2:1b',
  'stop llama3.2:1b',
  'serve',
  'logs -f',
  'run -m model.gguf -p Hi -n 50 --temp 0',
  'run -hf owner/repo:Q4_K_M',
  'serve -m model.gguf -c 8192 --port 8080 -np 16 -t 8',
  'serve -hf owner/repo:Q4_K_M',
  'server -m model.gguf',
  'bench offline -m model.gguf',
  'tokenize -m model.gguf Hello',
  'generate -m model.gguf -p Once',
  'serve owner/repo --max-model-len 8192 --max-num-seqs 64',
  'chat --url http://127.0.0.1:8000',
  'bench serve -m small',
  'doctor',
];

const refused: Readonly<Record<string, RegExp>> = {
  'create small -f Modelfile': /NAME=PATH.*\/api\/create/,
  'cp small other': /NAME=PATH/,
  'push small': /Hugging Face/,
  signin: /HF_TOKEN/,
  'cli -m model.gguf': /chairlift run/,
  '-m model.gguf -p Hi': /chairlift run -m model.gguf/,
  'embedding -m model.gguf': /\/v1\/embeddings/,
  'serve -m model.gguf -ngl 99': /--backend cpu/,
  'serve -m model.gguf -fa': /always on; leave the option out/,
  'serve -m model.gguf --mlock': /always in memory/,
  'serve -m model.gguf --api-key KEY': /chairlift keys create/,
  'bench -m model.gguf': /chairlift bench offline -m model.gguf/,
  'bench model.gguf': /chairlift bench offline -m model.gguf/,
  complete: /chairlift generate/,
  'run-batch -i in.jsonl': /chairlift batch/,
  'collect-env': /chairlift doctor/,
  'serve small --served-model-name other': /NAME=PATH/,
  'serve small --gpu-memory-utilization 0.9': /--gpu-memory 20GiB/,
  'serve small --tensor-parallel-size 2': /fleet/,
  'serve small --dtype auto': /choose another file/,
  'serve small --trust-remote-code': /no code of a model/,
};

describe('a command line of another program', () => {
  it.each(understood)('is understood: %s', async (line) => {
    expect(await refusal(line)).toBe('');
  });

  it.each(Object.entries(refused))('is answered by what to give instead: %s', async (line, hint) => {
    const said = await refusal(line);
    expect(said).toMatch(/^error: unknown (option|command) '/);
    expect(said).toMatch(hint);
    expect(said).not.toContain('Did you mean');
  });

  it('is answered by a suggestion where it is mistyped', async () => {
    expect(await refusal('serv')).toContain('Did you mean serve?');
    expect(await refusal('serve --prot 80')).toContain('Did you mean --port?');
  });
});
