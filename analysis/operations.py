"""Operations of the analysis tools."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import AfterValidator, BeforeValidator, Field, with_config
from typing_extensions import TypedDict

from foundation.operations.fields import FORBID, Id, MemoryIds, OneOf, ResultLimit, Text, Verbatim, validation_error
from foundation.operations.operation import Operation
from foundation.operations.schemas import ALLOWED
from memories.operations import AT_MOST, FROM_MEMORIES, Metadata

MAX_ID = 200
MAX_FIELDS = 100
MAX_PARENTS = 25
FINDINGS_AT_ONCE = 25
MAX_FINDING = 4_000
MAX_CATEGORY = 120
PER_PAGE = 50
NEW_KEY = "Any new key for the analysis."
METRICS = ("count", "sum", "avg", "min", "max", "percentile")
ACTIONS = ("update", "delete")
FORMATS = ("csv", "jsonl")
OBJECT_FORMATS = ("text", "csv", "tsv", "json", "parquet")

AnalysisId = Annotated[str, Text(1, MAX_ID), Field(description="Key of the analysis.")]
Names = Annotated[list[Annotated[str, Text(1, 200)]], Field(max_length=MAX_FIELDS)]
Conditions = Annotated[
    dict[str, Any],
    Field(
        description="Which records: {field: value} or {field: {$gt: value}}; also $gte, $lt, $lte, $eq, $ne, $in, "
        "$nin, $exists, $contains, $not. $and, $or and $not combine conditions."
    ),
]
Matching = Annotated[dict[str, Any], Field(description="Which records; conditions as in analysis_query.")]
User = Annotated[str, Field(description="For service accounts only: the user.")]
Model = Annotated[str, Field(description="Data set, if the analysis has several.")]


def _fits(seed: int) -> int:
    if not -(2**63) <= seed < 2**63:
        raise validation_error("is out of range", "a 64-bit whole number")
    return seed


PageSize = Annotated[int, Field(json_schema_extra={"minimum": 1})]  # the maximum is the model's per_page_max
FindingText = Annotated[str, Text(1, MAX_FINDING)]
FindingCategory = Annotated[str, Text(0, MAX_CATEGORY)]
TopK = Annotated[int, Field(ge=1, le=200)]
TopN = Annotated[int, Field(ge=1, le=200)]
RowLimit = Annotated[int, Field(ge=1, le=200)]
SampleSize = Annotated[int, Field(ge=1, le=50)]
Seed = Annotated[int, AfterValidator(_fits)]


class IngestRecords(Operation):
    """Download the records of a data set"""

    analysis_id: AnalysisId = Field(description=NEW_KEY)
    model: str = Field(
        min_length=1,
        description="Data set to download. An unknown name lists them.",
        json_schema_extra={ALLOWED: "a model, or parent_model with child_resource"},
    )
    filters: dict[str, Any] | None = Field(None, description="Search filters of its system.")
    page: Annotated[int, Field(ge=1, le=1_000_000)] = Field(1, description="Page to download.")
    per_page: PageSize = Field(PER_PAGE, description="Records per page.")
    fields: Names = Field([], description="Keep only these fields and the ids.")
    ingest_all: bool = Field(False, description="Download all pages, up to 50 per call.")
    resume: bool = Field(False, description="With ingest_all: continue after the last page.")
    user_id: User = ""


class IngestChildren(Operation):
    """Download the child records of ingested records"""

    analysis_id: AnalysisId = Field(description=NEW_KEY)
    parent_model: str = Field(description="Ingested data set whose children to download.")
    child_resource: str = Field("", description="Kind of children.")
    parent_ids: (
        Annotated[list[Annotated[str, Text(1, 500), BeforeValidator(str)]], Field(max_length=MAX_PARENTS)] | None
    ) = Field(None, description="Ids of the parents; all if not given.")
    fields: Names = Field([], description="Keep only these fields and the ids.")
    user_id: User = ""


@with_config(FORBID)
class FindingInput(TypedDict):
    finding: FindingText
    category: NotRequired[FindingCategory]
    metadata: NotRequired[Metadata]


class StoreFindings(Operation):
    """Store findings"""

    analysis_id: AnalysisId
    findings: Annotated[list[FindingInput], Field(min_length=1, max_length=FINDINGS_AT_ONCE)] = Field(
        description="Conclusions, each understandable alone."
    )
    persistent: bool = Field(False, description="Keep for more than an hour.")
    memory_ids: MemoryIds = Field([], description=FROM_MEMORIES)


class Describe(Operation):
    """Show fields, types and frequent values"""

    analysis_id: AnalysisId
    model: Model = ""
    where: Conditions | None = None


class SearchFindings(Operation):
    """Search stored findings by meaning"""

    analysis_id: AnalysisId
    model: Model = ""
    query: FindingText = Field(description="What to find, in words.")
    category: FindingCategory = Field("", description="Only findings of this category.")
    top_k: TopK = Field(50, description=AT_MOST)
    threshold: float = Field(0.5, description="Minimum similarity (0 to 1) of findings that share no word.")


@with_config(FORBID)
class Metric(TypedDict):
    op: Annotated[str, OneOf(METRICS)]
    field: NotRequired[str]
    p: NotRequired[float]


class Aggregate(Operation):
    """Count records or compute metrics per group"""

    analysis_id: AnalysisId
    model: Model = ""
    where: Conditions | None = None
    group_by: str | dict[str, Any] | list[str | dict[str, Any]] = Field(
        description='A field, {field, bucket: "month"} for a date, or a list of up to 3 of these.'
    )
    metrics: Annotated[list[Metric], Field(max_length=5)] = Field([], description="Default: count. p is a percentile.")
    top_n: TopN = Field(20, description="How many groups; others are counted.")


class Filter(Operation):
    """Read matching records, page by page"""

    analysis_id: AnalysisId
    model: Model = ""
    where: Conditions = Field(json_schema_extra={ALLOWED: "conditions; mode sample works without them"})
    limit: RowLimit = Field(20, description=AT_MOST)
    sort: str = Field("", description="Field; -field for descending.")
    fields: Names = Field([], description="Return only these fields.")
    cursor: str = Field("", description="From the previous page.")


class Sample(Operation):
    """Read records drawn at random"""

    analysis_id: AnalysisId
    model: Model = ""
    where: Conditions | None = None
    sample_size: SampleSize = Field(5, description="How many records.")
    stratify_by: str | list[str] = Field([], description="Fields of which to include every value.")
    proximity: dict[str, Any] | None = Field(
        None, description='Near a date: {field, origin, window: "7 days", bucket?: "1 day"}.'
    )
    seed: Seed | None = Field(None, description="The same seed draws the same records.")


class RunAction(Operation):
    """Update or delete the matching records"""

    analysis_id: AnalysisId
    model: str = Field(description="Writable data set of the analysis.")
    action: Annotated[str, OneOf(ACTIONS)] = Field(description="What to do with the records.")
    where: Matching | None = None
    attributes: dict[str, Any] | None = Field(None, description="For update: {field: new value}.")
    dry_run: bool = Field(False, description="Only show what would change.")
    confirm: str = Field("", description="Token from the dry run; needed for more than 50 records.")
    revalidate: bool = Field(False, description="Skip records that changed since they were downloaded.")
    user_id: User = ""


class ResumeAction(Operation):
    """Continue an interrupted action"""

    action_id: Annotated[Id, Field(description="Continue this action, and pass nothing else.")]


class Clear(Operation):
    """Delete an analysis"""

    analysis_id: AnalysisId


class Export(Operation):
    """Export the matching records as a file"""

    analysis_id: AnalysisId
    model: Model = ""
    where: Matching | None = None
    format: Annotated[str, OneOf(FORMATS)] = Field("csv", description="File format.")
    fields: Names = Field([], description="Export only these fields.")


class QuerySql(Operation):
    """Ask a data warehouse in SQL"""

    sql: Annotated[str, Text(1, 20_000)] = Field(
        description="One statement that reads: SELECT, EXPLAIN, DESCRIBE, SUMMARIZE, PIVOT or SHOW TABLES."
    )
    source: Annotated[str, Text(0, 60)] = Field("", description="Warehouse, if there are several.")
    limit: Annotated[int, ResultLimit(10_000)] = Field(100, description="How many rows.")


StoreName = Annotated[str, Text(0, 60), Field(description="Store, if there are several.")]
Key = Annotated[str, Verbatim(1_024), Field(description="Key of the object, as object_list returns it.")]


class ListObjects(Operation):
    """List folders and objects"""

    store: StoreName = ""
    prefix: Annotated[str, Verbatim(1_024)] = Field("", description="Beginning of the keys, such as sales/2026/.")
    recursive: bool = Field(False, description="List the objects in folders, too.")
    limit: Annotated[int, ResultLimit(1_000)] = Field(100, description="How many.")
    cursor: Annotated[str, Verbatim(4_000)] = Field("", description="From the previous page.")


class ObjectInfo(Operation):
    """Show the properties of an object"""

    key: Key
    store: StoreName = ""


class ReadObject(Operation):
    """Read the beginning of an object"""

    key: Key
    store: StoreName = ""
    format: Annotated[str, OneOf(OBJECT_FORMATS)] = Field("", description="Told from the name if not given.")
    limit: Annotated[int, ResultLimit(1_000)] = Field(50, description="How many rows or lines.")
    columns: Names = Field([], description="Of a Parquet file: read only these columns.")
