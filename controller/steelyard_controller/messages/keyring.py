"""The controller's keys: the keys that may sign each message, and the key that signs tables.

Pure. Without a shared key, signed values are refused. Derived keys
(`steelyard_protocol.derived_keys`) have three modes:

    off        unused: every sender signs with the shared key
    accept     valid beside the shared key; the derived key for tables signs the tables
    require    the only valid ones: a message signed with the shared key is refused
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from steelyard_protocol import derived_keys, signature
from steelyard_protocol.wire import Refused

DerivedKeys = Literal["off", "accept", "require"]

# More senders than a controller serves, at 0.3 kB each. Deriving a key costs as much as two checks.
_derived = lru_cache(maxsize=65_536)(derived_keys.derive)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyring:
    """The shared key, and the mode of the keys derived from it."""

    shared: bytes | None = field(default=None, repr=False)
    derived: DerivedKeys = "off"

    @property
    def of_tables(self) -> bytes | None:
        """Return the key that signs weight tables; None: they are not signed."""
        if self.shared is None or self.derived == "off":
            return self.shared
        return _derived(self.shared, derived_keys.TABLES)

    def signed_table(self, text: bytes) -> bytes:
        """Return a text in place of a table, signed if tables are signed."""
        return text if self.of_tables is None else signature.sign(self.of_tables, text)

    def of_reports(self, lb: str) -> bytes | None:
        """Return the key that signs a load balancer's traffic reports; None: they are not signed."""
        if self.shared is None or self.derived == "off":
            return self.shared
        return _derived(self.shared, derived_keys.lb(lb))

    def open_value(self, value: bytes, name: str) -> bytes | Refused:
        """Return the text of a value signed by the owner of the key `name`, or the reason for its refusal."""
        if self.shared is None or self.derived == "off":
            return signature.open_value(self.shared, value)
        if self.derived == "accept":
            text = signature.open_value(self.shared, value)
            if not _is_forged(text):
                return text
        for signer in derived_keys.signers(name):
            text = signature.open_value(_derived(self.shared, signer), value)
            if not _is_forged(text):
                return text
        return self._refused(value, name)

    def _refused(self, value: bytes, name: str) -> Refused:
        remedy = "" if name == derived_keys.TABLES else f": `steelyard keys {name}` prints it"
        if self.derived == "require" and not _is_forged(signature.open_value(self.shared, value)):
            return Refused("signature", f"it is signed with the shared key, not with its own{remedy}")
        whose = "its own key" if self.derived == "require" else "its own key nor the shared one"
        return Refused("signature", f"it is not signed with {whose}, or was changed on the way{remedy}")


def _is_forged(text: bytes | Refused) -> bool:
    return isinstance(text, Refused) and text.reason == "signature"
