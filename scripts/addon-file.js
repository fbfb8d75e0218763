// Reads the exports, imports and minimum system of a shared library, in the formats of addons: ELF, Mach-O and PE, 64 bits and
// little-endian. So a package can be checked without the systems it is for.

/**
 * @typedef {object} AddonFile
 * @property {string} format `elf`, `mach-o` or `pe`
 * @property {string} arch
 * @property {readonly string[]} exports
 * @property {readonly string[]} libraries loaded with it
 * @property {readonly string[]} imports names that come from them
 * @property {readonly string[]} hostImports names that may come from anywhere
 * @property {string} minimum the oldest glibc, macOS or Windows it says it runs on
 * @property {boolean} [signed]
 */

/** @returns {AddonFile} */
export function readAddonFile(bytes) {
  const view = new Reader(bytes);
  const magic = view.u32(0);
  if (magic === 0x464c457f) return readElf(view);
  if (magic === 0xfeedfacf) return readMachO(view);
  if ((magic & 0xffff) === 0x5a4d) return readPe(view);
  throw new Error('is neither ELF nor Mach-O nor PE of 64 bits');
}

class Reader {
  #bytes;
  #view;

  constructor(bytes) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  u8(at) {
    return this.#view.getUint8(at);
  }

  u16(at) {
    return this.#view.getUint16(at, true);
  }

  u32(at) {
    return this.#view.getUint32(at, true);
  }

  u64(at) {
    return Number(this.#view.getBigUint64(at, true));
  }

  text(at) {
    const end = this.#bytes.indexOf(0, at);
    if (end < 0) throw new Error(`holds a name without an end at ${at}`);
    return Buffer.from(this.#bytes.subarray(at, end)).toString('latin1');
  }

  /** LEB128: seven bits a byte. */
  uleb(at) {
    let value = 0;
    for (let shift = 0, next = at; ; shift += 7, next++) {
      value += (this.u8(next) & 0x7f) * 2 ** shift;
      if (this.u8(next) < 0x80) return { value, end: next + 1 };
    }
  }
}

function named(names, number, what) {
  const name = names[number];
  if (name === undefined) throw new Error(`is for ${what} 0x${number.toString(16)}, which is unknown here`);
  return name;
}

function latest(versions) {
  return versions.toSorted((a, b) => a.localeCompare(b, 'en', { numeric: true })).at(-1) ?? '';
}

// ELF: tables of sections; their kinds are numbers.

const DYNAMIC = 6;
const DYNAMIC_SYMBOLS = 11;
const NEEDED_VERSIONS = 0x6ffffffe;

function readElf(view) {
  const arch = named({ 62: 'x64', 183: 'arm64' }, view.u16(18), 'the processor');
  const [first, size, count] = [view.u64(40), view.u16(58), view.u16(60)];
  const sections = Array.from({ length: count }, (_, at) => {
    const head = first + at * size;
    return {
      kind: view.u32(head + 4),
      offset: view.u64(head + 24),
      bytes: view.u64(head + 32),
      link: view.u32(head + 40),
      entry: view.u64(head + 56),
    };
  });
  const find = (kind) => {
    const section = sections.find((one) => one.kind === kind);
    return section && { ...section, texts: sections[section.link]?.offset ?? 0 };
  };
  const symbols = elfSymbols(view, find(DYNAMIC_SYMBOLS));
  const undefinedNames = symbols.filter(({ isDefined }) => !isDefined).map(({ name }) => name);
  return {
    format: 'elf',
    arch,
    exports: symbols
      .filter(({ isDefined, isGlobal }) => isDefined && isGlobal)
      .map(({ name }) => name)
      .sort(),
    libraries: elfLibraries(view, find(DYNAMIC)),
    imports: undefinedNames.filter((name) => !isOfNode(name)).sort(),
    hostImports: undefinedNames.filter(isOfNode).sort(),
    minimum: latest(elfVersions(view, find(NEEDED_VERSIONS))),
  };
}

/** ELF does not say which library a name comes from. */
function isOfNode(name) {
  return /^_?(napi|node_api)_/.test(name);
}

function elfSymbols(view, section) {
  if (section === undefined) throw new Error('has no dynamic symbols');
  return Array.from({ length: section.bytes / section.entry }, (_, at) => {
    const head = section.offset + at * section.entry;
    const binding = view.u8(head + 4) >> 4;
    return {
      name: view.text(section.texts + view.u32(head)),
      isDefined: view.u16(head + 6) !== 0,
      isGlobal: binding !== 0 && (view.u8(head + 5) & 3) === 0,
    };
  }).filter(({ name }) => name !== '');
}

function elfLibraries(view, section) {
  const libraries = [];
  for (let at = section?.offset ?? 0; section && at < section.offset + section.bytes; at += 16) {
    if (view.u64(at) === 1) libraries.push(view.text(section.texts + view.u64(at + 8)));
  }
  return libraries;
}

function elfVersions(view, section) {
  const versions = [];
  for (let at = section?.offset; at !== undefined; ) {
    for (let entry = at + view.u32(at + 8), left = view.u16(at + 2); left > 0; left--) {
      versions.push(view.text(section.texts + view.u32(entry + 8)));
      entry += view.u32(entry + 12);
    }
    const next = view.u32(at + 12);
    at = next === 0 ? undefined : at + next;
  }
  return versions.flatMap((name) => /^GLIBC_(.*)$/.exec(name)?.[1] ?? []);
}

// Mach-O: a list of load commands.

const LOAD_LIBRARY = 0xc;
const LOAD_SIGNATURE = 0x1d;
const LOAD_OLD_VERSION = 0x24;
const LOAD_VERSION = 0x32;
const LOAD_INFO = 0x80000022;
const LOAD_EXPORTS = 0x80000033;

function readMachO(view) {
  const arch = named({ 16777228: 'arm64', 16777223: 'x64' }, view.u32(4), 'the processor');
  const commands = [];
  for (let at = 32, left = view.u32(16); left > 0; left--) {
    commands.push({ kind: view.u32(at), at });
    at += view.u32(at + 4);
  }
  const find = (kind) => commands.find((one) => one.kind === kind)?.at;
  const version = find(LOAD_VERSION);
  const oldVersion = find(LOAD_OLD_VERSION);
  const packed = version === undefined ? view.u32((oldVersion ?? 0) + 8) : view.u32(version + 12);
  const { imports, hostImports } = machImports(view, find(LOAD_INFO));
  return {
    format: 'mach-o',
    arch,
    exports: machExports(view, find(LOAD_EXPORTS), find(LOAD_INFO)).filter(
      (name) => !ofLinker.includes(name),
    ),
    libraries: commands
      .filter(({ kind }) => kind === LOAD_LIBRARY)
      .map(({ at }) => view.text(at + view.u32(at + 8))),
    imports,
    hostImports,
    minimum: `${packed >> 16}.${(packed >> 8) & 0xff}`,
    signed: find(LOAD_SIGNATURE) !== undefined,
  };
}

/** Symbols that a linker may add by itself. */
const ofLinker = ['__dso_handle', '_mh_dylib_header'];

/** C names have a leading underscore. */
function withoutUnderscore(name) {
  return name.replace(/^_/, '');
}

/** A trie, as dyld looks them up. */
function machExports(view, command, info) {
  const [offset, bytes] =
    command === undefined
      ? [view.u32((info ?? 0) + 40), view.u32((info ?? 0) + 44)]
      : [view.u32(command + 8), view.u32(command + 12)];
  const names = [];
  const visit = (at, prefix) => {
    const { value: terminal, end } = view.uleb(offset + at);
    if (terminal > 0) names.push(withoutUnderscore(prefix));
    let next = end + terminal;
    for (let children = view.u8(next++); children > 0; children--) {
      const edge = view.text(next);
      const child = view.uleb(next + edge.length + 1);
      visit(child.value, prefix + edge);
      next = child.end;
    }
  };
  if (bytes > 0) visit(0, '');
  return names.sort();
}

/** Binding opcodes: executed before the library runs, and when a function is first called. */
function machImports(view, info) {
  const names = { imports: new Set(), hostImports: new Set() };
  if (info === undefined) throw new Error('has no binding opcodes');
  for (const list of [16, 32]) {
    const [offset, bytes] = [view.u32(info + list), view.u32(info + list + 4)];
    let isHost = false;
    let name = '';
    for (let at = offset; at < offset + bytes; ) {
      const [code, immediate] = [view.u8(at) & 0xf0, view.u8(at) & 0x0f];
      at++;
      if (code === 0x10 || code === 0x20) isHost = false;
      // -2: the flat namespace.
      if (code === 0x30) isHost = immediate === 0x0e;
      if (code === 0x40) {
        name = view.text(at);
        at += name.length + 1;
      }
      for (let numbers = numbersBehind[code] ?? 0; numbers > 0; numbers--) at = view.uleb(at).end;
      if (code >= 0x90) names[isHost ? 'hostImports' : 'imports'].add(withoutUnderscore(name));
    }
  }
  return { imports: [...names.imports].sort(), hostImports: [...names.hostImports].sort() };
}

/** Operands of an opcode. */
const numbersBehind = { 32: 1, 96: 1, 112: 1, 128: 1, 160: 1, 192: 2 };

// PE: directories, with addresses as they are in memory.

function readPe(view) {
  const head = view.u32(0x3c);
  if (view.u32(head) !== 0x4550) throw new Error('is no PE');
  const arch = named({ 34404: 'x64', 43620: 'arm64' }, view.u16(head + 4), 'the processor');
  if ((view.u16(head + 22) & 0x2000) === 0) throw new Error('is a program, not a library');
  const optional = head + 24;
  const sectionsAt = optional + view.u16(head + 20);
  const sections = Array.from({ length: view.u16(head + 6) }, (_, at) => {
    const section = sectionsAt + 40 * at;
    return { bytes: view.u32(section + 8), address: view.u32(section + 12), offset: view.u32(section + 20) };
  });
  const offsetOf = (address) => {
    const home = sections.find((one) => address >= one.address && address < one.address + one.bytes);
    if (home === undefined) throw new Error(`has an address outside its sections: 0x${address.toString(16)}`);
    return address - home.address + home.offset;
  };
  const directory = (number) => {
    const address = view.u32(optional + 112 + 8 * number);
    return address === 0 ? undefined : offsetOf(address);
  };
  const imports = peImports(view, directory(1), offsetOf);
  return {
    format: 'pe',
    arch,
    exports: peExports(view, directory(0), offsetOf),
    libraries: imports.map(({ library }) => library),
    imports: imports.flatMap(({ names }) => names).sort(),
    hostImports: [],
    minimum: `${view.u16(optional + 48)}.${view.u16(optional + 50)}`,
  };
}

function peExports(view, at, offsetOf) {
  if (at === undefined) return [];
  const names = offsetOf(view.u32(at + 32));
  return Array.from({ length: view.u32(at + 24) }, (_, index) =>
    view.text(offsetOf(view.u32(names + 4 * index))),
  ).sort();
}

function peImports(view, at, offsetOf) {
  const imports = [];
  for (let entry = at; entry !== undefined && view.u32(entry + 12) !== 0; entry += 20) {
    const names = [];
    const lookup = offsetOf(view.u32(entry) || view.u32(entry + 16));
    for (let slot = lookup; view.u64(slot) !== 0; slot += 8) {
      // The upper bit means an ordinal instead of a name.
      const isNumber = view.u32(slot + 4) >= 0x80000000;
      names.push(isNumber ? `#${view.u16(slot)}` : view.text(offsetOf(view.u32(slot)) + 2));
    }
    imports.push({ library: view.text(offsetOf(view.u32(entry + 12))), names });
  }
  return imports;
}
