// The error of a bad model file: which file and field, what is wrong, what to do.

export interface ModelFileFault {
  readonly file: string;
  /** Absent where the file itself, or its name, is at fault. */
  readonly field?: string;
  readonly problem: string;
  readonly remedy: string;
}

const SHOWN_FIELD = 120;
const SHOWN_PROBLEM = 400;

export class ModelFileError extends Error {
  readonly fault: ModelFileFault;

  constructor(fault: ModelFileFault) {
    super(`${fault.file}: ${fieldOf(fault)}${printable(fault.problem, SHOWN_PROBLEM)}. ${fault.remedy}`);
    this.name = 'ModelFileError';
    this.fault = fault;
  }
}

function fieldOf({ field }: ModelFileFault): string {
  if (field === undefined) return '';
  return `${field === '' ? '(empty name)' : printable(field)}: `;
}

/** Hostile files have names of any length with control characters. */
export function printable(text: string, limit = SHOWN_FIELD): string {
  const clipped = text.length > limit ? `${text.slice(0, limit)}…` : text;
  return clipped.replace(/\p{C}/gu, '\ufffd');
}
