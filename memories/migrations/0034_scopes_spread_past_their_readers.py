from django.db import migrations

# A curator may make a memory private, which takes the rows that belong to it out of their own sight. The trigger that
# copies the memory's owner, persona and visibility to these rows must reach them all the same. It writes nothing else.
SEE_ALL = "ALTER FUNCTION spread_scope() SET commonplace.sees_all = 'on'"
SEE_OWN = "ALTER FUNCTION spread_scope() RESET commonplace.sees_all"


class Migration(migrations.Migration):
    dependencies = [("memories", "0033_citations")]

    operations = [migrations.RunSQL(SEE_ALL, SEE_OWN)]
