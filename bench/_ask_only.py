import pages, sys
def only(role, user):
    return [("Ask","/ask/?q=refunds+of+stock+in+table_03"),("Ask question","/ask/?q=what+do+we+know+about+discounts+and+tax%3F"),("My K. search","/?q=refunds+of+stock+in+table_03")]
pages.pages=only
pages.main()
