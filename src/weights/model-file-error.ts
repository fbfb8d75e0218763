// The error of a bad model file: which file and field, what is wrong, what to do.

export interface ModelFileFault {
  readonly file: string;
  readonly field: string;
  readonly problem: string;
  readonly remedy: string;
}

const SHOWN_FIELD = 120;
const SHOWN_PROBLEM = 400;

export class ModelFileError extends Error {
  readonly fault: ModelFileFault;

  constructor(fault: ModelFileFault) {
    const field = fault.field === '' ? '(empty name)' : printable(fault.field);
    super(`${fault.file}: ${field}: ${printable(fault.problem, SHOWN_PROBLEM)}. ${fault.remedy}`);
    this.name = 'ModelFileError';
    this.fault = fault;
  }
}

/** Hostile files have names of any length with control characters. */
export function printable(text: string, limit = SHOWN_FIELD): string {
  const clipped = text.length > limit ? `${text.slice(0, limit)}…` : text;
  return clipped.replace(/\p{C}/gu, '\ufffd');
}
