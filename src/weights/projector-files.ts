// Which projector file (mmproj) belongs to a GGUF: one folder may hold those of several models, and several of one.

import { readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { isProjectorName } from './open-model.ts';

/** The most exact that costs no more than it gains comes first. */
const formats = ['f16', 'bf16', 'q8_0', 'f32'];

/** Undefined where there is none, or none by whose name it could be told. */
export function projectorFor(model: string): string | undefined {
  const directory = dirname(model);
  const all = readdirSync(directory).filter((name) => name.endsWith('.gguf'));
  const projectors = all.filter((name) => isProjectorName(name) && name !== basename(model));
  const models = new Set(all.filter((name) => !isProjectorName(name)).map(plainName));
  const own = plainName(basename(model));
  const fitting = projectors.filter((name) => {
    const said = plainName(name);
    // One that names no model belongs to the only one that is there.
    return said === '' ? models.size <= 1 : own.includes(said) || said.includes(own);
  });
  const rank = (name: string) => {
    const at = formats.findIndex((format) => new RegExp(`(^|[-_.])${format}[-_.]`, 'i').test(name));
    return at === -1 ? formats.length : at;
  };
  const [name] = fitting.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
  return name === undefined ? undefined : join(directory, name);
}

/** Without what says how weights are stored, which part of a file it is, and that it is a projector. */
function plainName(file: string): string {
  return file
    .toLowerCase()
    .replace(/\.gguf$/, '')
    .replace(/-\d{5}-of-\d{5}$/, '')
    .replace(/mmproj|projector/g, '')
    .replace(/(^|[-_.])(ud[-_])?((b?f|fp)(16|32)|i?q\d\w*|mxfp4\w*|tq\d\w*)(?=$|[-_.])/g, '')
    .replace(/[^a-z0-9]/g, '')
    .replace(/^model$/, '');
}
