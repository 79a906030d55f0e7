"""The ways by which a message goes: SMTP, or an HTTP POST."""

from __future__ import annotations

import hashlib
import hmac
import json
import smtplib
import ssl
import time
from email.message import EmailMessage
from email.utils import formatdate
from urllib.parse import unquote

from groundspeed.service.addresses import apart
from groundspeed.service.errors import Invalid
from groundspeed.service.notify import render
from groundspeed.service.posting import NoAnswerError, post
from groundspeed.service.settings import Settings
from groundspeed.service.usecases.notifications.channels import OWNER
from groundspeed.service.usecases.notifications.delivery import Batch, NotToldError

_TIMEOUT_S = 15.0
_TRY_AGAIN = frozenset({408, 425, 429})


def send(settings: Settings, batch: Batch) -> None:
    """Tell one channel. Raises :class:`NotToldError` with the reason."""
    try:
        if batch.kind == "email":
            _mail(settings, batch)
        elif batch.kind == "slack":
            _post(batch, render.for_slack(batch, settings.base_url))
        else:
            _post(batch, render.for_programs(batch, settings.base_url))
    except Invalid as error:
        raise NotToldError(str(error), final=True) from error


def _post(batch: Batch, body: object) -> None:
    """Signed when the channel has a secret. Redirections are not followed: they could lead anywhere."""
    raw = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    stamp = str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Groundspeed",
        "Groundspeed-Delivery": batch.number,
        "Groundspeed-Timestamp": stamp,
    }
    if batch.secret:
        mac = hmac.new(batch.secret.encode(), f"{stamp}.".encode() + raw, hashlib.sha256).hexdigest()
        headers["Groundspeed-Signature"] = f"sha256={mac}"
    try:
        reply = post(batch.target, raw, headers, _TIMEOUT_S)
    except NoAnswerError as error:
        raise NotToldError(f"no answer: {error}") from error
    if not reply.yes:
        final = reply.status < 500 and reply.status not in _TRY_AGAIN
        raise NotToldError(f"answered {reply.status}: {reply.text[:200]}", final=final)


def _mail(settings: Settings, batch: Batch) -> None:
    server = apart(settings.smtp_url.get_secret_value())
    if not server.hostname:
        raise NotToldError("no mail server: set GROUNDSPEED_SMTP_URL")
    to = recipients(batch)
    if not to:
        raise NotToldError("the regression is assigned to nobody whose e-mail address is known", final=True)
    message = _letter(settings, batch, to)
    try:
        with _connect(server.scheme, server.hostname, server.port) as smtp:
            if server.username:
                smtp.login(unquote(server.username), unquote(server.password or ""))
            smtp.send_message(message)
    except smtplib.SMTPRecipientsRefused as error:
        codes = {code for code, _ in error.recipients.values()}
        raise NotToldError(f"refused: {error.recipients}", final=all(code >= 550 for code in codes)) from error
    except (smtplib.SMTPException, OSError) as error:
        raise NotToldError(f"{type(error).__name__}: {error}") from error


def _connect(scheme: str, host: str, port: int | None) -> smtplib.SMTP:
    """Encrypted where the server offers it."""
    context = ssl.create_default_context()
    if scheme == "smtps":
        return smtplib.SMTP_SSL(host, port or 465, timeout=_TIMEOUT_S, context=context)
    smtp = smtplib.SMTP(host, port or 587, timeout=_TIMEOUT_S)
    smtp.ehlo()
    if smtp.has_extn("starttls"):
        smtp.starttls(context=context)
        smtp.ehlo()
    return smtp


def recipients(batch: Batch) -> list[str]:
    """Addresses, with "owner" replaced by those of whoever the regressions are assigned to."""
    named = [part.strip() for part in batch.target.split(",")]
    owners = [item.owner for item in batch.items if item.owner] if OWNER in named else []
    return list(dict.fromkeys([one for one in named if one != OWNER] + owners))


def _letter(settings: Settings, batch: Batch, to: list[str]) -> EmailMessage:
    """Its Message-ID is the batch's, so that a repeat is known as one; letters on one regression make a thread."""
    host = apart(settings.base_url).hostname or "localhost"
    letter = EmailMessage()
    letter["From"] = settings.mail_from
    letter["To"] = ", ".join(to)
    letter["Subject"] = render.subject(batch, settings.base_url)
    letter["Date"] = formatdate()
    letter["Message-ID"] = f"<{batch.number}.{batch.ids[0]}@{host}>"
    letter["Auto-Submitted"] = "auto-generated"
    letter["List-Id"] = f"Groundspeed <groundspeed.{host}>"
    about = {item.facts["regression"]["id"] for item in batch.items if item.facts}
    if len(about) == 1:
        letter["References"] = f"<regression.{about.pop()}@{host}>"
    letter.set_content(render.text(batch, settings.base_url) + f"\n\n-- \n{batch.channel}, {settings.base_url}\n")
    return letter
