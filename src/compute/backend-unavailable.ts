// A backend that was asked for and cannot serve here: the message says why.

export class BackendUnavailableError extends Error {
  override readonly name = 'BackendUnavailableError';
}
