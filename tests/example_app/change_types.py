from __future__ import annotations

from knowledge.changesets.change_request import ChangeStep, ChangeType, Context, Request, add, detail_of

CERTIFIED = "urn:li:tag:Certified"


def certify(request: Request, context: Context) -> list[ChangeStep]:
    reason = detail_of(request, "what was verified")
    return [add(context.urn, "globalTags", ("tags", CERTIFIED), {"tag": CERTIFIED, "context": reason})]


CERTIFY = ChangeType("certify", ("dataset",), certify, "Certify the data set", detail="what was verified")
