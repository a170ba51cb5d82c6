"""``klops.image``: the image that the container is made from, brought to the host when it is needed."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from klops.actions.base import Action, Context, Params, Plan, Probe, Seen, Step, View
from klops.actions.own import hostreads, hostview
from klops.actions.own.image import arrival
from klops.actions.own.image.load import LoadImage
from klops.actions.own.image.pull import PullImage
from klops.commands import docker


class ImageParams(Params):
    """``recreate``: whether a container that differs may be made anew; None: as the settings say."""

    recreate: Literal["report", "allow"] | None = None


class ImageAction(Action[ImageParams]):
    """Has the image there, by the policy of the settings.

    With ``pull: always`` each run asks the registry. It counts as changed only when the name means another
    image afterwards, which can't be known before: a dry run says unknown.
    """

    name: ClassVar[str] = "klops.image"
    params = ImageParams

    def probe(self, params: ImageParams, view: View) -> Probe:
        """Engine and container, the image, its archive and the room for it."""
        return Probe(reads=(*hostreads.host(view.settings), *arrival.reads(view.settings)))

    def plan(self, params: ImageParams, view: View, seen: Seen) -> Plan:
        """Nothing for an image that is there, or that nothing is to be made of."""
        settings = view.settings
        host = hostview.look(seen.replies, settings)
        trouble = host.trouble()
        if trouble is not None:
            return Plan(failure=trouble)
        there = host.container is not None
        recreate = arrival.may_replace(settings, host, params.recreate)
        coming = arrival.coming(settings, seen.replies, there=there, recreate=recreate)
        image = settings.container.image or ""
        if coming.why is not None and not there:
            return Plan(failure=coming.why)
        if coming.why is not None or not (coming.present or coming.needed):
            # preflight has warned of it: the container that is there goes on without
            but = f"; but {coming.why.message}" if image and coming.needed and coming.why is not None else ""
            return Plan(message=f"{image or 'no image'}: not needed, the container is there{but}")
        prefix = hostreads.docker_prefix(settings)
        disk = arrival.disk(seen.replies)
        steps: list[Step] = []
        if coming.load is not None:
            steps.append(LoadImage(prefix, image, coming.load, disk))
        if coming.pull:
            there_by_then = coming.present or coming.load is not None
            steps.append(PullImage(prefix, image, present=there_by_then, disk=disk))
        known = docker.parse_image(hostview.reply(seen.replies, hostreads.IMAGE).text)
        result = {"image": image, "id": known.id if known is not None else ""}
        asks = coming.present and coming.pull
        return Plan(
            steps=tuple(steps),
            result=result,
            message="" if steps else f"{image} is there",
            unknown=f"only the registry knows whether {image} is another image by now"
            if asks and view.check
            else "",
        )

    def apply(self, plan: Plan, ctx: Context) -> dict[str, Any]:
        """Carry the steps out; a pull that brought nothing new is no change, a load before it is one."""
        result: dict[str, Any] = {}
        changed = False
        for step in plan.steps:
            added = dict(step.carry_out(ctx) or {})
            if added.pop("changed", True):
                changed = True
                ctx.done.append(step.change())
            result.update(added)
        return {**result, "changed": changed}
