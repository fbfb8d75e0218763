// Folders as Hugging Face's tools and LM Studio make them: contents in blobs, links to them, a commit's name in refs.

import { mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import {
  ggufModel,
  safetensorsConfig,
  safetensorsWeights,
  splitGgufModel,
} from '../../test/support/model-files.ts';
import { modelHomes } from './model-homes.ts';
import { findModels } from './model-registry.ts';
import { givenModel, locateModel, otherModels } from './named-models.ts';

const root = mkdtempSync(join(tmpdir(), 'chairlift-named-'));
afterAll(() => rmSync(root, { recursive: true }));
let homes = 0;

const COMMIT = 'b1946ac92492d2347c6235b4d2611184f38b8c3a';
const EARLIER = '591785b794601e212b260e25925636fd0a1f2e3b';

type Files = Readonly<Record<string, Uint8Array | string>>;

function write(path: string, content: Uint8Array | string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, content);
}

/** A home of its own, with no models of anybody. */
class Home {
  readonly path = join(root, `home-${homes++}`);
  readonly cache = join(this.path, '.cache', 'huggingface', 'hub');

  constructor() {
    mkdirSync(this.path);
  }

  homes(environment: Readonly<Record<string, string>> = {}) {
    return modelHomes(join(this.path, '.chairlift', 'models'), { environment, home: this.path });
  }

  repository(id: string): string {
    return join(this.cache, `models--${id.replace('/', '--')}`);
  }

  /** Blobs, a snapshot of links to them, and main at this commit. */
  cached(id: string, files: Files, commit = COMMIT): string {
    const repository = this.repository(id);
    for (const [at, [name, content]] of Object.entries(files).entries()) {
      const blob = `${commit.slice(0, 8)}${at}`;
      write(join(repository, 'blobs', blob), content);
      const link = join(repository, 'snapshots', commit, name);
      mkdirSync(dirname(link), { recursive: true });
      symlinkSync(`${'../'.repeat(name.split('/').length + 1)}blobs/${blob}`, link);
    }
    write(join(repository, 'refs', 'main'), commit);
    return join(repository, 'snapshots', commit);
  }

  inLmStudio(files: Files, base = '.lmstudio'): string {
    const folder = join(this.path, base, 'models');
    for (const [name, content] of Object.entries(files)) write(join(folder, name), content);
    return folder;
  }
}

const whole: Files = { 'config.json': safetensorsConfig, 'model.safetensors': safetensorsWeights };
const index = JSON.stringify({
  weight_map: {
    'a.weight': 'model-00001-of-00002.safetensors',
    'b.weight': 'model-00002-of-00002.safetensors',
  },
});

describe('a name on the hub', () => {
  it('is the snapshot of main in the cache, whose links lead to blobs', () => {
    const home = new Home();
    const snapshot = home.cached('mlx-community/Tiny-4bit', whole);
    const given = givenModel('mlx-community/Tiny-4bit', home.homes());
    expect(given).toEqual({ name: 'mlx-community/Tiny-4bit', path: snapshot });
    expect(findModels({ paths: [given] })).toMatchObject([
      {
        name: 'mlx-community/Tiny-4bit',
        path: snapshot,
        format: 'safetensors',
        sizeBytes: safetensorsWeights.length,
      },
    ]);
    expect(findModels({ paths: [given] })[0]?.problem).toBeUndefined();
    expect(locateModel('hf:mlx-community/Tiny-4bit', home.homes()).path).toBe(snapshot);
    expect(locateModel('MLX-Community/tiny-4BIT', home.homes()).path).toBe(snapshot);
    expect(givenModel('mine=mlx-community/Tiny-4bit', home.homes())).toEqual({
      name: 'mine',
      path: snapshot,
    });
  });

  it('is looked for where the environment says that the cache is', () => {
    const home = new Home();
    const snapshot = home.cached('owner/tiny', whole);
    const found = (environment: Readonly<Record<string, string>>) =>
      locateModel('owner/tiny', new Home().homes(environment)).path;
    expect(found({ HF_HUB_CACHE: home.cache })).toBe(snapshot);
    expect(found({ HUGGINGFACE_HUB_CACHE: home.cache })).toBe(snapshot);
    expect(found({ HF_HOME: dirname(home.cache) })).toBe(snapshot);
    expect(found({ XDG_CACHE_HOME: join(home.path, '.cache') })).toBe(snapshot);
    expect(found({ HF_HUB_CACHE: home.cache, HF_HOME: '/nowhere' })).toBe(snapshot);
    expect(locateModel('owner/tiny', home.homes({ HF_HUB_CACHE: '~/.cache/huggingface/hub' })).path).toBe(
      snapshot,
    );
    expect(found({ HF_HUB_CACHE: '' })).toBe('owner/tiny');
  });

  it('is the commit of main, not a later look at another; where main has no weights, the latest that has', () => {
    const home = new Home();
    const earlier = home.cached('owner/tiny', whole, EARLIER);
    const snapshot = home.cached('owner/tiny', whole);
    utimesSync(earlier, 4e9, 4e9);
    expect(locateModel('owner/tiny', home.homes()).path).toBe(snapshot);
    const looked = new Home();
    const weights = looked.cached('owner/tiny', whole, EARLIER);
    looked.cached('owner/tiny', { 'config.json': safetensorsConfig });
    expect(locateModel('owner/tiny', looked.homes()).path).toBe(weights);
    rmSync(join(looked.repository('owner/tiny'), 'refs'), { recursive: true });
    expect(locateModel('owner/tiny', looked.homes()).path).toBe(weights);
  });

  it('with a file or its tag is one GGUF of several', () => {
    const home = new Home();
    const snapshot = home.cached('owner/tiny-GGUF', {
      'tiny-Q4_K_M.gguf': ggufModel,
      'tiny-Q8_0.gguf': ggufModel,
      'mmproj-F16.gguf': ggufModel,
    });
    for (const file of ['Q8_0', 'q8_0', 'tiny-Q8_0', 'tiny-Q8_0.gguf']) {
      const given = givenModel(`owner/tiny-GGUF:${file}`, home.homes());
      expect(given).toEqual({ name: `owner/tiny-GGUF:${file}`, path: join(snapshot, 'tiny-Q8_0.gguf') });
      expect(findModels({ paths: [given] })[0]?.problem).toBeUndefined();
    }
    expect(locateModel('owner/tiny-GGUF', home.homes()).path).toBe(join(snapshot, 'tiny-Q4_K_M.gguf'));
    expect(locateModel('owner/tiny-GGUF:Q6_K', home.homes())).toMatchObject({
      problem: expect.stringMatching(/holds no GGUF 'Q6_K'/),
      absent: { owner: 'owner', repo: 'tiny-GGUF', file: 'Q6_K' },
    });
    home.cached('owner/odd-GGUF', { 'odd-Q5_0.gguf': ggufModel, 'odd-Q8_0.gguf': ggufModel });
    const several = locateModel('owner/odd-GGUF', home.homes());
    expect(several.problem).toMatch(
      /holds several GGUF files\. Name one of odd-Q5_0, odd-Q8_0 after a colon\.$/,
    );
    expect(several.absent).toBeUndefined();
  });

  it('by a short name keeps that name', () => {
    const home = new Home();
    const snapshot = home.cached('bartowski/Llama-3.2-1B-Instruct-GGUF', {
      'Llama-3.2-1B-Instruct-Q4_K_M.gguf': ggufModel,
    });
    const path = join(snapshot, 'Llama-3.2-1B-Instruct-Q4_K_M.gguf');
    expect(locateModel('llama3.2:1b', home.homes())).toEqual({ name: 'llama3.2:1b', path });
  });

  it("is found in LM Studio's folder, wherever that lies", () => {
    for (const base of ['.lmstudio', '.cache/lm-studio', 'moved']) {
      const home = new Home();
      const folder = home.inLmStudio(
        { 'lmstudio-community/tiny-GGUF/tiny-Q4_K_M.gguf': ggufModel, ...under('mlx-community/tiny', whole) },
        base,
      );
      if (base === 'moved') write(join(home.path, '.lmstudio-home-pointer'), `${join(home.path, base)}\n`);
      const path = (name: string) => locateModel(name, home.homes()).path;
      expect(path('lmstudio-community/tiny-GGUF')).toBe(
        join(folder, 'lmstudio-community/tiny-GGUF/tiny-Q4_K_M.gguf'),
      );
      expect(path('mlx-community/tiny')).toBe(join(folder, 'mlx-community/tiny'));
    }
    const home = new Home();
    write(
      join(home.path, '.lmstudio', 'settings.json'),
      JSON.stringify({ downloadsFolder: join(home.path, 'big') }),
    );
    write(join(home.path, 'big', 'owner', 'tiny', 'tiny.gguf'), ggufModel);
    expect(locateModel('owner/tiny', home.homes()).path).toBe(join(home.path, 'big/owner/tiny/tiny.gguf'));
  });

  it('is what was pulled, before what others have', () => {
    const home = new Home();
    home.cached('owner/tiny', whole);
    const own = home.homes().own;
    write(join(own, 'owner', 'tiny', 'tiny.gguf'), ggufModel);
    expect(locateModel('owner/tiny', home.homes()).path).toBe(join(own, 'owner/tiny/tiny.gguf'));
  });

  it('of nothing here says where it was looked for, and what to do', () => {
    const home = new Home();
    const { path, problem } = givenModel('owner/none', home.homes());
    expect(path).toBe('owner/none');
    expect(problem).toContain(`no model of this name in ${home.homes().own}, ${home.cache}.`);
    expect(problem).toMatch(/bring it with chairlift pull hf:owner\/none\.$/);
    expect(findModels({ paths: [givenModel('owner/none', home.homes())] })).toMatchObject([{ problem }]);
  });

  it('gives way to a path that exists, and a path stays a path', () => {
    const home = new Home();
    home.cached('models/tiny', whole);
    expect(givenModel(root, home.homes())).toEqual({ path: root });
    for (const path of ['./models/tiny', '/models/tiny', 'tiny.gguf', 'C:\\models\\tiny', 'a/b/c.gguf']) {
      expect(givenModel(path, home.homes())).toEqual({ path });
    }
  });
});

describe('a model whose files are not all there', () => {
  /** Found neither by name nor in a list as something that can be served. */
  function expectIncomplete(home: Home, id: string, what: RegExp): void {
    const { path, problem } = locateModel(id, home.homes());
    expect(path).toBe(id);
    expect(problem).toMatch(what);
    const [listed] = otherModels(home.homes());
    expect(listed?.name.startsWith(id.split(':')[0] ?? '')).toBe(true);
    expect(listed?.incomplete).toMatch(what);
  }

  it('has a link to a blob that is gone', () => {
    const home = new Home();
    home.cached('owner/tiny', whole);
    rmSync(join(home.repository('owner/tiny'), 'blobs', `${COMMIT.slice(0, 8)}1`));
    expectIncomplete(home, 'owner/tiny', /incomplete: model\.safetensors is missing/);
  });

  it('lacks shards that its index names, or a shard beside it counts', () => {
    const home = new Home();
    home.cached('owner/tiny', {
      'config.json': safetensorsConfig,
      'model.safetensors.index.json': index,
      'model-00001-of-00002.safetensors': safetensorsWeights,
    });
    expectIncomplete(home, 'owner/tiny', /incomplete: model-00002-of-00002\.safetensors is missing/);
    const counted = new Home();
    counted.cached('owner/tiny', {
      'config.json': safetensorsConfig,
      'model-00003-of-00003.safetensors': safetensorsWeights,
    });
    expectIncomplete(
      counted,
      'owner/tiny',
      /model-00001-of-00003\.safetensors, model-00002-of-00003\.\w+ are missing/,
    );
  });

  it('lacks a part of a split GGUF', () => {
    const home = new Home();
    home.cached('owner/tiny', { 'tiny-00001-of-00002.gguf': splitGgufModel[0] as Uint8Array });
    expectIncomplete(home, 'owner/tiny', /incomplete: tiny-00002-of-00002\.gguf is missing/);
    const both = new Home();
    const snapshot = both.cached('owner/tiny', {
      'tiny-00001-of-00002.gguf': splitGgufModel[0] as Uint8Array,
      'tiny-00002-of-00002.gguf': splitGgufModel[1] as Uint8Array,
    });
    const given = givenModel('owner/tiny', both.homes());
    expect(given.path).toBe(join(snapshot, 'tiny-00001-of-00002.gguf'));
    expect(findModels({ paths: [given] })[0]?.problem).toBeUndefined();
  });

  it('has a blob that is still to come; one that has come since is a leftover', () => {
    const home = new Home();
    home.cached('owner/tiny', whole);
    const blob = join(home.repository('owner/tiny'), 'blobs', 'abcdef0123456789');
    write(`${blob}.incomplete`, 'half');
    expectIncomplete(home, 'owner/tiny', /incomplete: abcdef0123456789\.incomplete is still to come/);
    write(blob, 'all of it');
    expect(locateModel('owner/tiny', home.homes()).problem).toBeUndefined();
    const begun = new Home();
    write(join(begun.repository('owner/tiny'), 'blobs', 'abc.incomplete'), 'half');
    expectIncomplete(begun, 'owner/tiny', /incomplete: abc\.incomplete is still to come/);
  });

  it('is downloaded by LM Studio at this moment', () => {
    const home = new Home();
    home.inLmStudio({ 'owner/tiny/tiny.gguf.part': 'half' });
    expectIncomplete(home, 'owner/tiny', /incomplete: its download has not ended/);
  });

  it('is passed over where the same is complete elsewhere', () => {
    const home = new Home();
    home.cached('owner/tiny', { 'tiny-00001-of-00002.gguf': splitGgufModel[0] as Uint8Array });
    const folder = home.inLmStudio({ 'owner/tiny/tiny.gguf': ggufModel });
    expect(locateModel('owner/tiny', home.homes()).path).toBe(join(folder, 'owner/tiny/tiny.gguf'));
    expect(otherModels(home.homes())).toEqual([
      { name: 'owner/tiny', path: join(folder, 'owner/tiny/tiny.gguf'), source: 'lm-studio' },
    ]);
  });

  it('without any weights is no model', () => {
    const home = new Home();
    home.cached('owner/tiny', { 'config.json': safetensorsConfig, 'tokenizer.json': '{}' });
    expect(locateModel('owner/tiny', home.homes()).problem).toMatch(/holds no weights\. Bring them/);
    expect(otherModels(home.homes())).toEqual([]);
  });
});

describe('models of other programs', () => {
  it('are listed by name, several GGUFs of a repository each by its own', () => {
    const home = new Home();
    home.cached('owner/tiny-GGUF', { 'tiny-Q4_0.gguf': ggufModel, 'tiny-Q8_0.gguf': ggufModel });
    home.cached('owner/whole', whole);
    mkdirSync(join(home.cache, 'datasets--owner--texts', 'snapshots'), { recursive: true });
    mkdirSync(join(home.cache, '.locks'));
    home.inLmStudio({ 'publisher/small/small.gguf': ggufModel });
    expect(otherModels(home.homes()).map(({ name, source }) => `${name} ${source}`)).toEqual([
      'owner/tiny-GGUF:tiny-Q4_0 hugging-face',
      'owner/tiny-GGUF:tiny-Q8_0 hugging-face',
      'owner/whole hugging-face',
      'publisher/small lm-studio',
    ]);
    for (const { name, path } of otherModels(home.homes())) {
      expect(locateModel(name, home.homes()).path).toBe(path);
    }
  });

  it('are none where there is no such folder', () => {
    expect(otherModels(new Home().homes())).toEqual([]);
  });
});

function under(folder: string, files: Files): Files {
  return Object.fromEntries(Object.entries(files).map(([name, content]) => [`${folder}/${name}`, content]));
}
