// Which names files of saved slots may have: those that are names on every system, and lead nowhere else.

const MOST_BYTES = 255;
/** Control characters, separators, and what Windows forbids. */
const FORBIDDEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}\\/:*?"<>|]/u;
/** They become a separator or a dot where a system takes them for the same, or stand for what could not be read. */
const ALIKE = /[\u2024-\u2026\u2044\u2215\u2216\u29f5\u29f8\ufe52\ufe68\uff0e\uff0f\uff3c\ufffd]/u;

/** Windows takes them for devices, whatever follows a dot. */
const DEVICE = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;

export function fileNameProblem(name: string): string | undefined {
  if (name === '') return 'is empty';
  if (Buffer.byteLength(name) > MOST_BYTES) return `is longer than ${MOST_BYTES} bytes`;
  if (FORBIDDEN.test(name) || ALIKE.test(name)) {
    return 'has a character that no name of a file may have here, such as a separator of paths';
  }
  if (name.includes('..')) return 'must not contain ..';
  if (/^[. ]|[. ]$/.test(name)) return 'must neither begin nor end with a dot or a space';
  if (DEVICE.test(name)) return 'is that of a device on some systems';
  return undefined;
}
